#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/llm/llama.h"
#include "train/tasks/language/data/token_batch.h"
#include "train/tasks/task.h"

namespace moh {

/// The context of a forward pass over a batch: its documents, if it has any, on the model's device.
ForwardContext context_of(const Llama& model, const TokenBatch& batch, bool reset_positions,
                          ForwardContext context = {});

/// How far an evaluation goes.
struct EvaluationLimits {
  std::int64_t batch_size = 1;
  std::int64_t max_tokens = 0;  ///< of each source: ends after the batch that reaches so many; 0: all
  bool reset_positions = false;
};

/// Evaluates a model on held-out tokens: loss (nats per token), perplexity and bits per byte over the targets
/// of all sources, and for each source with a name its loss, "loss/NAME". Returns nothing if `stop` returned
/// true. `tokenizer` must be that of the sources. The processes take batches in turns; sums are made in the
/// order of the batches, so the result does not depend on the number of processes. Throws as
/// EvaluationBatches does, and DataError for a source without a target.
std::optional<Evaluation> evaluate_language_model(const Llama& model, const std::vector<TextSource>& sources,
                                                  const Tokenizer& tokenizer, const BatchOptions& options,
                                                  const EvaluationLimits& limits, StopEvaluation stop,
                                                  Communicator& processes);

}  // namespace moh
