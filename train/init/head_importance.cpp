#include "train/init/head_importance.h"

#include <cmath>

#include "autograd/node.h"
#include "ops/linalg/matmul.h"
#include "ops/loss/cross_entropy.h"

namespace moh {

namespace {

HeadScores no_scores(const LlamaConfig& c) {
  return HeadScores(static_cast<std::size_t>(c.layers),
                    std::vector<double>(static_cast<std::size_t>(c.heads)));
}

class NormSums : public AttentionObserver {
 public:
  explicit NormSums(const LlamaConfig& config) : sums_(no_scores(config)) {}

  void observe(const AttentionTrace& trace) override {
    const Tensor norms = contribution_norms(trace);
    std::vector<double>& sums = sums_[static_cast<std::size_t>(trace.layer)];
    for (std::int64_t i = 0; i < norms.numel(); ++i)
      sums[static_cast<std::size_t>(i) % sums.size()] += norms.data<double>()[i];
    if (trace.layer == 0) tokens_ += norms.dim(0);
  }

  HeadScores means() const {
    HeadScores result = sums_;
    for (std::vector<double>& layer : result) {
      for (double& value : layer) value /= static_cast<double>(tokens_);
    }
    return result;
  }

 private:
  HeadScores sums_;
  std::int64_t tokens_ = 0;
};

/// Nats per token, with the heads' outputs multiplied.
double mean_loss(const Llama& model, const CalibrationBatches& batches, std::span<const Variable> scales) {
  double sum = 0;
  std::int64_t targets = 0;
  for (std::int64_t i = 0; i < batches.size(); ++i) {
    const TokenBatch batch = batches.at(i);
    const LlamaOutput output = model.forward(batch.tokens, {.all_heads = true, .head_scales = scales});
    sum += cross_entropy(output.logits, batch.targets.to(model.device())).value().item();
    targets += batch.num_targets;
  }
  return sum / static_cast<double>(targets);
}

}  // namespace

Tensor contribution_norms(const AttentionTrace& trace) {
  const std::int64_t heads = trace.heads.dim(2), d = trace.heads.dim(3);
  const std::int64_t tokens = trace.heads.dim(0) * trace.heads.dim(1);
  const Tensor rows = trace.heads.reshape({tokens, heads * d});
  const Tensor norms = empty({tokens, heads}, DType::kFloat64);
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

HeadScores mean_output_norms(const Llama& model, const CalibrationBatches& batches) {
  const NoGrad no_grad;
  NormSums sums(model.config());
  for (std::int64_t i = 0; i < batches.size(); ++i)
    model.forward(batches.at(i).tokens, {.observer = &sums, .all_heads = true});
  return sums.means();
}

HeadScores loss_increases(const Llama& model, const CalibrationBatches& batches,
                          const std::function<void(std::int64_t layer)>& on_layer) {
  const NoGrad no_grad;
  const LlamaConfig& c = model.config();
  const DType dtype = model.parameters().front().variable.dtype();
  HeadScores increases = no_scores(c);
  std::vector<Variable> scales(static_cast<std::size_t>(c.layers));
  const double all_on = mean_loss(model, batches, scales);
  for (std::size_t layer = 0; layer < increases.size(); ++layer) {
    for (std::size_t head = 0; head < increases[layer].size(); ++head) {
      std::vector<float> values(increases[layer].size(), 1.0F);
      values[head] = 0;
      scales[layer] = Variable(tensor_of<float>({c.heads}, values).to(dtype).to(model.device()));
      increases[layer][head] = mean_loss(model, batches, scales) - all_on;
    }
    scales[layer] = {};
    on_layer(static_cast<std::int64_t>(layer));
  }
  return increases;
}

}  // namespace moh
