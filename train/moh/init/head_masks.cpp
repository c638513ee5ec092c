#include "train/moh/init/head_masks.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "ops/moh/hard_concrete.h"

namespace moh {

namespace {

constexpr double kFirstLogAlpha = 3;  // P(z > 0) = 0.99

/// Adam on a vector of host scalars.
class SmallAdam {
 public:
  SmallAdam(std::size_t size, double learning_rate) : rate_(learning_rate), mean_(size), square_(size) {}

  void step(std::vector<double>& values, const std::vector<double>& gradients) {
    constexpr double kBeta1 = 0.9, kBeta2 = 0.99, kEps = 1e-12;
    ++steps_;
    const double bias1 = 1 - std::pow(kBeta1, steps_), bias2 = 1 - std::pow(kBeta2, steps_);
    for (std::size_t i = 0; i < values.size(); ++i) {
      mean_[i] = kBeta1 * mean_[i] + (1 - kBeta1) * gradients[i];
      square_[i] = kBeta2 * square_[i] + (1 - kBeta2) * gradients[i] * gradients[i];
      values[i] -= rate_ * (mean_[i] / bias1) / (std::sqrt(square_[i] / bias2) + kEps);
    }
  }

 private:
  double rate_;
  int steps_ = 0;
  std::vector<double> mean_, square_;
};

/// The masks of one layer.
class LayerMasks {
 public:
  LayerMasks(std::int64_t heads, std::int64_t target, double learning_rate)
      : target_(static_cast<double>(target)),
        log_alpha_(static_cast<std::size_t>(heads), kFirstLogAlpha),
        slopes_(log_alpha_.size()),
        adam_(log_alpha_.size(), learning_rate) {}

  /// Samples a mask per head, with random numbers first .. first + heads - 1 of the stream `key`.
  std::vector<float> draw(RandomKey key, std::uint64_t first) {
    std::vector<float> z;
    for (std::size_t h = 0; h < log_alpha_.size(); ++h) {
      const auto mask =
          hard_concrete::sample(log_alpha_[h], random_uniform(key, first + h) + hard_concrete::kHalfStep);
      slopes_[h] = mask.slope;
      z.push_back(static_cast<float>(mask.z));
    }
    return z;
  }

  /// dz: the gradient of the loss with respect to the masks, [H]; `progress`: 0 (all heads) to 1 (target).
  void update(const Tensor& dz, double progress) {
    std::vector<double> gradients;
    for (std::size_t h = 0; h < log_alpha_.size(); ++h)
      gradients.push_back(double{dz.data<float>()[h]} * slopes_[h]);
    adam_.step(log_alpha_, gradients);
    const double shift = shift_to(aim(progress));
    for (double& value : log_alpha_) value += shift;
  }

  /// The expected number of unmasked heads after adding `shift` to all log_alpha.
  double heads_on(double shift = 0) const {
    double sum = 0;
    for (const double value : log_alpha_) sum += hard_concrete::probability_on(value + shift);
    return sum;
  }
  double aim(double progress) const {
    const double all = static_cast<double>(log_alpha_.size()) * hard_concrete::probability_on(kFirstLogAlpha);
    return all + progress * (target_ - all);
  }
  const std::vector<double>& log_alpha() const { return log_alpha_; }

 private:
  /// Solves heads_on(shift) = count for the shift; 0 < count < number of heads.
  double shift_to(double count) const {
    double low = -100, high = 100;
    for (int i = 0; i < 60; ++i) (heads_on((low + high) / 2) < count ? low : high) = (low + high) / 2;
    return high;
  }

  double target_;
  std::vector<double> log_alpha_, slopes_;
  SmallAdam adam_;
};

class MaskTrainer {
 public:
  MaskTrainer(const Model& model, const Calibration& calibration, const MaskTraining& training)
      : model_(model), calibration_(calibration), training_(training), scores_(no_scores(model)) {
    MOH_CHECK(training.targets.size() == scores_.size(), "a number of heads for each layer");
    for (std::size_t i = 0; i < scores_.size(); ++i) {
      const auto heads = static_cast<std::int64_t>(scores_[i].size());
      const std::int64_t target = training.targets[i];
      const bool masked = target > 0 && target < heads;
      layers_.emplace_back(masked ? heads : 0, target, training.learning_rate);
      num_heads_ += scores_[i].size();
    }
    scales_.resize(layers_.size());
  }

  MaskStep step(std::int64_t step) {
    draw(static_cast<std::uint64_t>(step));
    const ForwardContext context{.all_heads = true, .head_scales = scales_};
    const Variable loss = calibration_.loss(model_, step, context, Reduction::kMean).value;
    MaskStep report{.step = step + 1, .loss = loss.value().item()};
    if (loss.requires_grad()) loss.backward();
    const double halfway = std::max(1.0, static_cast<double>(training_.steps) / 2);
    const double progress = std::min(1.0, static_cast<double>(step) / halfway);
    double masked = 0;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!scales_[i].defined()) continue;
      layers_[i].update(scales_[i].grad().to(kCpu).to(DType::kFloat32), progress);
      report.heads_on += layers_[i].heads_on();
      report.target += layers_[i].aim(progress);
      ++masked;
    }
    report.heads_on /= std::max(1.0, masked);
    report.target /= std::max(1.0, masked);
    return report;
  }

  HeadScores scores() const {
    HeadScores scores = scores_;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      std::ranges::copy(layers_[i].log_alpha(), scores[i].begin());
    return scores;
  }

 private:
  void draw(std::uint64_t step) {
    const RandomKey key = initialisation_key(training_.seed, "init.moh.masks");
    std::uint64_t first = step * num_heads_;
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      if (!layers_[i].log_alpha().empty()) {
        const std::vector<float> z = layers_[i].draw(key, first);
        const Tensor values = tensor_of<float>({static_cast<std::int64_t>(z.size())}, z);
        scales_[i] = Variable(values.to(model_.dtype()).to(model_.device()), true);
      }
      first += scores_[i].size();
    }
  }

  const Model& model_;
  const Calibration& calibration_;
  const MaskTraining& training_;
  HeadScores scores_;  // zeros; has the shape of the result
  std::uint64_t num_heads_ = 0;
  std::vector<LayerMasks> layers_;
  std::vector<Variable> scales_;
};

/// Turns off requires_grad of the model's parameters for its lifetime.
class Frozen {
 public:
  explicit Frozen(const Module& model) : parameters_(model.parameters()) {
    std::erase_if(parameters_, [](const NamedParameter& p) { return !p.variable.requires_grad(); });
    set(false);
  }
  ~Frozen() { set(true); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  void set(bool required) {
    for (NamedParameter& p : parameters_) p.variable.set_requires_grad(required);
  }
  std::vector<NamedParameter> parameters_;
};

}  // namespace

HeadScores train_head_masks(const Model& model, const Calibration& calibration, const MaskTraining& training,
                            const std::function<void(const MaskStep&)>& on_step) {
  const Frozen frozen(model);
  MaskTrainer trainer(model, calibration, training);
  for (std::int64_t step = 0; step < training.steps; ++step) on_step(trainer.step(step));
  return trainer.scores();
}

}  // namespace moh
