#include "train/trainer/optim/adamw_update.h"

#include <cmath>
#include <numeric>
#include <utility>

#include "ops/optim/clip_grad_norm.h"
#include "ops/optim/device_adamw.h"

namespace moh {

namespace {

/// The sum of the losses of an update's micro-batches.
double sum_of(const Tensor& losses) {
  const auto each = losses.span<double>();
  return std::accumulate(each.begin(), each.end(), 0.0);
}

class HostAdamW final : public AdamWUpdate {
 public:
  explicit HostAdamW(const AdamWOptions& options) : options_(options) {}

  void set_learning_rate(double learning_rate) override { learning_rate_ = learning_rate; }
  void set_limits(const UpdateLimits& limits) override { limits_ = limits; }
  void set_steps(std::int64_t steps) override { steps_ = steps; }
  void count_update() override { ++steps_; }

  Tensor update(const std::vector<AdamWParameter>& parameters, const Tensor& losses,
                const ParameterShards& shards) override {
    std::vector<Tensor> grads;
    for (const AdamWParameter& parameter : parameters) grads.push_back(parameter.grad);
    const double loss = sum_of(losses), norm = shards.norm_of_all(grad_norm(grads));
    const bool go =
        std::isfinite(loss) && std::isfinite(norm) && loss <= limits_.loss && norm <= limits_.grad_norm;
    const double limit = options_.clip_grad_norm;
    if (go) adamw(parameters, step(limit > 0 ? clip_factor(norm, limit) : 1.0));
    return tensor_of<double>({2}, {norm, go ? 1.0 : 0.0});
  }

  void begin(const Tensor& losses) override {
    const double loss = sum_of(losses);
    step_is_finite_ = std::isfinite(loss) && loss <= limits_.loss;
    squares_.clear();
  }

  void update_one(std::size_t index, const AdamWParameter& parameter) override {
    // In the order of the parameters, as grad_norm() adds them up.
    if (squares_.size() <= index) squares_.resize(index + 1);
    squares_[index] = square_sums(parameter.grad);
    step_is_finite_ = step_is_finite_ && std::isfinite(norm_of({&squares_[index], 1}));
    if (step_is_finite_) adamw({&parameter, 1}, step(1.0));
  }

  Tensor finish(const ParameterShards& shards) override {
    const std::vector<SquareSums> squares = std::exchange(squares_, {});
    const double norm = shards.norm_of_all(norm_of(squares));
    return tensor_of<double>({2}, {norm, step_is_finite_ && std::isfinite(norm) ? 1.0 : 0.0});
  }

 private:
  AdamWStep step(double grad_scale) const {
    return {.step = steps_ + 1,
            .learning_rate = learning_rate_,
            .beta1 = options_.betas[0],
            .beta2 = options_.betas[1],
            .epsilon = options_.eps,
            .momentum = options_.momentum,
            .grad_scale = grad_scale};
  }

  AdamWOptions options_;
  double learning_rate_ = 0;
  UpdateLimits limits_;
  std::int64_t steps_ = 0;
  bool step_is_finite_ = false;      // the losses, and the gradients so far
  std::vector<SquareSums> squares_;  // of the gradients so far
};

/// DeviceAdamW, which decides on the GPU, so that the host does not wait.
class GpuAdamW final : public AdamWUpdate {
 public:
  GpuAdamW(const std::vector<AdamWParameter>& parameters, const AdamWOptions& options)
      : update_(parameters, AdamWBetas{options.betas[0], options.betas[1], options.eps, options.momentum},
                options.clip_grad_norm) {}

  void set_learning_rate(double learning_rate) override { update_.set_learning_rate(learning_rate); }
  void set_limits(const UpdateLimits& limits) override { update_.set_limits(limits.loss, limits.grad_norm); }
  void set_steps(std::int64_t steps) override { update_.set_steps(steps); }
  void count_update() override {}
  Tensor update(const std::vector<AdamWParameter>&, const Tensor& losses,
                const ParameterShards& shards) override {
    return update_.update(losses, shards.squares_of_all());
  }
  void begin(const Tensor& losses) override { update_.begin(losses); }
  void update_one(std::size_t index, const AdamWParameter& parameter) override {
    update_.update_one(index, parameter.grad);
  }
  Tensor finish(const ParameterShards& shards) override { return update_.finish(shards.squares_of_all()); }

 private:
  DeviceAdamW update_;
};

}  // namespace

std::unique_ptr<AdamWUpdate> make_adamw_update(const std::vector<AdamWParameter>& parameters,
                                               const AdamWOptions& options) {
  // The device of the moments: values may still be on their way from other processes.
  if (parameters.empty() || parameters[0].moment().device() == kCpu)
    return std::make_unique<HostAdamW>(options);
  return std::make_unique<GpuAdamW>(parameters, options);
}

}  // namespace moh
