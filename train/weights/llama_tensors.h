#pragma once

#include <vector>

#include "models/llm/llama_config.h"
#include "train/checkpoint/checkpoint.h"

namespace moh {

/// Names and shapes of the parameters of a Llama, in its order, without making one: those of a model of 8
/// billion parameters take 32 GB.
std::vector<TensorSpec> llama_tensors(const LlamaConfig& config, DType dtype);

}  // namespace moh
