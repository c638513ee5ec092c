#pragma once

#include "autograd/variable.h"
#include "models/llm/llama_config.h"
#include "tests/golden/golden_case.h"

namespace moh::test {

/// The model of a case, or its one attention layer, with every head active.
LlamaConfig dense_llama(const nlohmann::json& config);

/// Such a model as the released MoH-LLaMA3 routes it: gates of 0 and 1 by the norms of the queries, without a
/// gradient to them. How many heads, each layer's intermediate values say.
LlamaConfig routed_llama(const GoldenCase& golden);
/// How many, says that code where no file does: half of the heads are shared, as many again as half of these
/// are kept of the rest.
LlamaConfig released_llama(LlamaConfig dense);

/// Mean cross entropy of the logits of each token with the label of the next one; -100 counts for nothing.
Variable next_token_loss(const Variable& logits, const Tensor& labels);

}  // namespace moh::test
