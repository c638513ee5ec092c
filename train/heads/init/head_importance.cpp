#include "train/heads/init/head_importance.h"

#include <cmath>

#include "autograd/node.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

class NormSums : public AttentionObserver {
 public:
  NormSums(const Model& model, RoutingKey rule)
      : rule_(rule), sums_(no_scores(model)), tokens_(sums_.size()) {}

  void observe(const AttentionTrace& trace) override {
    const std::int64_t heads = trace.heads.dim(2), kv_heads = trace.k.defined() ? trace.k.dim(2) : heads;
    const Tensor norms = contribution_norms(trace, heads / rule_->units({heads, kv_heads}));
    const auto layer = static_cast<std::size_t>(trace.layer);
    std::vector<double>& sums = sums_[layer];
    sums.resize(static_cast<std::size_t>(norms.dim(1)));
    for (std::int64_t i = 0; i < norms.numel(); ++i)
      sums[static_cast<std::size_t>(i) % sums.size()] += norms.data<double>()[i];
    tokens_[layer] += norms.dim(0);
  }

  HeadScores means() const {
    HeadScores result = sums_;
    for (std::size_t layer = 0; layer < result.size(); ++layer) {
      for (double& value : result[layer]) value /= static_cast<double>(tokens_[layer]);
    }
    return result;
  }

 private:
  RoutingKey rule_;
  HeadScores sums_;
  std::vector<std::int64_t> tokens_;  // by layer
};

/// The loss per target, with head outputs multiplied by `scales` ([H] by layer; undefined: by 1).
double mean_loss(const Model& model, const Calibration& calibration, std::span<const Variable> scales) {
  double sum = 0;
  std::int64_t targets = 0;
  for (std::int64_t i = 0; i < calibration.size(); ++i) {
    const Calibration::BatchLoss loss =
        calibration.loss(model, i, {.all_heads = true, .head_scales = scales});
    sum += loss.value.value().item();
    targets += loss.targets;
  }
  return sum / static_cast<double>(targets);
}

}  // namespace

HeadScores no_scores(const Model& model) {
  HeadScores scores;
  for (const HeadRoutingOptions& layer : model.routing())
    scores.emplace_back(static_cast<std::size_t>(layer.router.heads));
  return scores;
}

Tensor contribution_norms(const AttentionTrace& trace, std::int64_t unit_heads) {
  const std::int64_t heads = trace.heads.dim(2) / unit_heads, d = trace.heads.dim(3) * unit_heads;
  const std::int64_t tokens = trace.heads.dim(0) * trace.heads.dim(1);
  const Tensor rows = trace.heads.reshape({tokens, heads * d});
  Tensor norms = empty({tokens, heads}, DType::kFloat64);
  for (std::int64_t h = 0; h < heads; ++h) {
    const Tensor added = matmul(columns_of(rows, h * d, d),
                                columns_of(trace.output, h * d, d, /*is_transposed=*/true), DType::kFloat32)
                             .to(kCpu);
    for (std::int64_t t = 0; t < tokens; ++t) {
      double squares = 0;
      for (const float value : added.select(t).span<float>()) squares += double{value} * value;
      norms.data<double>()[t * heads + h] = std::sqrt(squares);
    }
  }
  return norms;
}

HeadScores mean_output_norms(const Model& model, const Calibration& calibration, RoutingKey rule) {
  const NoGrad no_grad;
  NormSums sums(model, rule);
  for (std::int64_t i = 0; i < calibration.size(); ++i)
    calibration.logits(model, i, {.observer = &sums, .all_heads = true});
  return sums.means();
}

HeadScores loss_increases(const Model& model, const Calibration& calibration,
                          const std::function<void(std::int64_t layer)>& on_layer) {
  const NoGrad no_grad;
  HeadScores increases = no_scores(model);
  std::vector<Variable> scales(increases.size());
  const double all_on = mean_loss(model, calibration, scales);
  for (std::size_t layer = 0; layer < increases.size(); ++layer) {
    const std::size_t heads = increases[layer].size();
    for (std::size_t head = 0; head < heads; ++head) {
      std::vector<float> values(heads, 1.0F);
      values[head] = 0;
      const Tensor all_but_one = tensor_of<float>({static_cast<std::int64_t>(heads)}, values);
      scales[layer] = Variable(all_but_one.to(model.dtype()).to(model.device()));
      increases[layer][head] = mean_loss(model, calibration, scales) - all_on;
    }
    scales[layer] = {};
    on_layer(static_cast<std::int64_t>(layer));
  }
  return increases;
}

}  // namespace moh
