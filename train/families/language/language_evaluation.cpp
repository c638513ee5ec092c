#include "train/families/language/language_evaluation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "autograd/node.h"
#include "core/error.h"
#include "train/comm/communicator.h"

namespace moh {

namespace {

/// Sums over the targets of held-out tokens.
struct Sums {
  double loss = 0;
  std::int64_t targets = 0, bytes = 0;
  std::int64_t predicted = 0;  ///< tokens, targets and others

  double mean() const { return loss / static_cast<double>(targets); }
  void add(const Sums& other) {
    loss += other.loss;
    targets += other.targets;
    bytes += other.bytes;
    predicted += other.predicted;
  }
};

/// Sums over sources, each of which counts as all of it would although a part was evaluated.
struct WholeSums {
  double loss = 0, targets = 0, bytes = 0;

  /// `factor`: all tokens of the source per evaluated one.
  void add(const Sums& of_source, double factor) {
    loss += factor * of_source.loss;
    targets += factor * static_cast<double>(of_source.targets);
    bytes += factor * static_cast<double>(of_source.bytes);
  }
};

std::vector<EvaluationBatches> batches_of(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                                          const BatchOptions& options, const EvaluationLimits& limits) {
  std::vector<EvaluationBatches> batches;
  for (const TextSource& source : sources)
    batches.emplace_back(source.tokens, tokenizer, options, limits.batch_size, limits.max_tokens);
  return batches;
}

Sums sums_of_batch(const Llama& model, const TokenBatch& batch, const EvaluationLimits& limits) {
  const Variable logits =
      model.forward(batch.tokens, context_of(model, batch, limits.reset_positions)).logits;
  return {cross_entropy(logits, batch.targets.to(model.device())).value().item(), batch.num_targets,
          batch.target_bytes, /*predicted=*/0};
}

/// The sums of every process, by rank.
std::vector<Sums> gathered(const Sums& own, Communicator& processes) {
  if (processes.alone()) return {own};
  const Tensor all = empty({processes.size(), 3}, DType::kFloat64);
  // Counts are exact in float64.
  processes.all_gather(
      tensor_of<double>({3}, {own.loss, static_cast<double>(own.targets), static_cast<double>(own.bytes)}),
      all);
  std::vector<Sums> sums;
  for (int r = 0; r < processes.size(); ++r) {
    const double* row = all.select(r).data<double>();
    sums.push_back({row[0], static_cast<std::int64_t>(row[1]), static_cast<std::int64_t>(row[2]), 0});
  }
  return sums;
}

/// `before` and `total` are for the progress that `stop` gets.
std::optional<Sums> sums_of(const Llama& model, const EvaluationBatches& batches,
                            const EvaluationLimits& limits, std::int64_t before, std::int64_t total,
                            StopEvaluation stop, Communicator& processes) {
  Sums sums;
  const std::int64_t count = batches.size();
  for (std::int64_t first = 0; first < count; first += processes.size()) {
    if (stop({before + batches.predicted_before(first), total})) return std::nullopt;
    const std::int64_t own = first + processes.rank();
    // All compute a batch, the last one again where there is none: parameters may be divided among them.
    Sums own_sums = sums_of_batch(model, batches.at(std::min(own, count - 1)), limits);
    if (own >= count) own_sums = {};
    for (const Sums& batch : gathered(own_sums, processes)) sums.add(batch);
  }
  sums.predicted = batches.predicted_before(count);
  return sums;
}

/// A mean needs a target.
void require_targets(const Sums& sums, const std::string& source) {
  if (sums.targets > 0) return;
  throw DataError(
      error_message("evaluation", source.empty() ? "held-out tokens" : "held-out tokens of source " + source,
                    "at least one target", "none: all are of prompts, or the first of their documents",
                    "hold out more, or raise eval.max_tokens"));
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
                                                  const EvaluationLimits& limits, StopEvaluation stop,
                                                  Communicator& processes) {
  const NoGrad no_grad;
  const std::vector<EvaluationBatches> batches = batches_of(sources, tokenizer, options, limits);
  std::int64_t planned = 0, tokens = 0;
  for (const EvaluationBatches& each : batches) {
    planned += each.num_predicted();
    tokens += each.all_predicted();
  }
  Sums all;
  WholeSums whole;
  Evaluation evaluation;
  std::int64_t before = 0;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::optional<Sums> sums = sums_of(model, batches[i], limits, before, planned, stop, processes);
    if (!sums) return std::nullopt;
    require_targets(*sums, sources[i].name);
    before += batches[i].num_predicted();
    all.add(*sums);
    whole.add(*sums, sources.size() == 1 ? 1
                                         : static_cast<double>(batches[i].all_predicted()) /
                                               static_cast<double>(sums->predicted));
    if (!sources[i].name.empty()) evaluation.metrics.emplace_back("loss/" + sources[i].name, sums->mean());
  }
  evaluation.score = whole.loss / whole.targets;
  evaluation.metrics.insert(evaluation.metrics.begin(),
                            {{"perplexity", std::exp(evaluation.score)},
                             {"bits_per_byte", whole.loss / std::numbers::ln2 / whole.bytes}});
  evaluation.evaluated = all.predicted;
  evaluation.held_out = tokens;
  evaluation.coverage = std::to_string(all.predicted) + " of " + std::to_string(tokens) +
                        " tokens, sequences of " + std::to_string(options.sequence_length);
  if (all.targets < all.predicted) evaluation.coverage += ", " + std::to_string(all.targets) + " targets";
  return evaluation;
}

std::int64_t evaluated_tokens(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                              const BatchOptions& options, const EvaluationLimits& limits) {
  std::int64_t tokens = 0;
  for (const EvaluationBatches& each : batches_of(sources, tokenizer, options, limits))
    tokens += each.num_predicted();
  return tokens;
}

}  // namespace moh
