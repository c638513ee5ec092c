#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/llm/llama.h"
#include "train/families/language/data/token_batch.h"
#include "train/trainer/task/task.h"

namespace moh {

/// The context of a forward pass over a batch: its documents, if it has any, on the model's device.
ForwardContext context_of(const Llama& model, const TokenBatch& batch, bool reset_positions,
                          ForwardContext context = {});

/// How far an evaluation goes.
struct EvaluationLimits {
  std::int64_t batch_size = 1;
  std::int64_t max_tokens = 0;  ///< of each source (EvaluationBatches); 0: all
  bool reset_positions = false;
};

/// Evaluates a model on held-out tokens: loss (nats per token), perplexity and bits per byte over the targets
/// of all sources, and for each source with a name its loss, "loss/NAME". A source of which a part is
/// evaluated counts in the mean as all of it would, so that the mean does not depend on how much of each was
/// evaluated. Returns nothing if `stop` returned true. `tokenizer` must be that of the sources. The processes
/// take batches in turns; sums are made in the order of the batches, so the result does not depend on the
/// number of processes. Throws as EvaluationBatches does, and DataError for a source without a target.
std::optional<Evaluation> evaluate_language_model(const Llama& model, const std::vector<TextSource>& sources,
                                                  const Tokenizer& tokenizer, const BatchOptions& options,
                                                  const EvaluationLimits& limits, StopEvaluation stop,
                                                  Communicator& processes);

/// Tokens that such an evaluation predicts. Throws as EvaluationBatches does.
std::int64_t evaluated_tokens(const std::vector<TextSource>& sources, const Tokenizer& tokenizer,
                              const BatchOptions& options, const EvaluationLimits& limits);

}  // namespace moh
