#include "train/tasks/language/language_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "autograd/node.h"

namespace moh {

namespace {

/// Sums over the targets of held-out tokens.
struct Sums {
  double loss = 0;
  std::int64_t targets = 0, bytes = 0;

  double mean() const { return loss / static_cast<double>(targets); }
  void add(const Sums& other) {
    loss += other.loss;
    targets += other.targets;
    bytes += other.bytes;
  }
};

std::int64_t most_targets(const EvaluationBatches& batches, const EvaluationLimits& limits) {
  return limits.max_tokens == 0 ? batches.num_targets() : std::min(limits.max_tokens, batches.num_targets());
}

/// `before` and `total` are for the progress that `stop` gets.
std::optional<Sums> sums_of(const Llama& model, const EvaluationBatches& batches,
                            const EvaluationLimits& limits, std::int64_t before, std::int64_t total,
                            StopEvaluation stop) {
  Sums sums;
  for (std::int64_t i = 0; i < batches.size() && (limits.max_tokens == 0 || sums.targets < limits.max_tokens);
       ++i) {
    if (stop({std::min(before + sums.targets, total), total})) return std::nullopt;
    const TokenBatch batch = batches.at(i);
    const Variable logits =
        model.forward(batch.tokens, context_of(model, batch, limits.reset_positions)).logits;
    sums.add({cross_entropy(logits, batch.targets.to(model.device())).value().item(), batch.num_targets,
              batch.target_bytes});
  }
  return sums;
}

}  // namespace

ForwardContext context_of(const Llama& model, const TokenBatch& batch, bool reset_positions,
                          ForwardContext context) {
  if (!batch.document_starts.defined()) return context;
  context.document_starts = batch.document_starts.to(model.device());
  context.reset_positions = reset_positions;
  return context;
}

std::optional<Evaluation> evaluate_language_model(const Llama& model, const std::vector<TextSource>& sources,
                                                  const Tokenizer& tokenizer, const BatchOptions& options,
                                                  const EvaluationLimits& limits, StopEvaluation stop) {
  const NoGrad no_grad;
  std::vector<EvaluationBatches> batches;
  std::int64_t planned = 0, tokens = 0;
  for (const TextSource& source : sources) {
    batches.emplace_back(source.tokens, tokenizer, options, limits.batch_size);
    planned += most_targets(batches.back(), limits);
    tokens += batches.back().num_targets();
  }
  Sums all;
  Evaluation evaluation;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::optional<Sums> sums = sums_of(model, batches[i], limits, before, planned, stop);
    if (!sums) return std::nullopt;
    before += most_targets(batches[i], limits);
    all.add(*sums);
    if (!sources[i].name.empty()) evaluation.metrics.emplace_back("loss/" + sources[i].name, sums->mean());
  }
  evaluation.score = all.mean();
  evaluation.metrics.insert(
      evaluation.metrics.begin(),
      {{"perplexity", std::exp(evaluation.score)},
       {"bits_per_byte", all.loss / std::numbers::ln2 / static_cast<double>(all.bytes)}});
  evaluation.coverage = std::to_string(all.targets) + " of " + std::to_string(tokens) +
                        " tokens, sequences of " + std::to_string(options.sequence_length);
  return evaluation;
}

}  // namespace moh
