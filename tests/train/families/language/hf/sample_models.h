#pragma once

#include <string_view>
#include <vector>

#include "models/llm/llama_config.h"

namespace moh::test {

/// A small model that is exported for transformers.
struct SampleModel {
  std::string_view name;
  LlamaConfig model;
};

/// Every kind of model that an export tells apart: dense and MoH, each router and scaling of gates, heads
/// counted once or per layer, grouped KV heads, tied embeddings, each rope scaling.
std::vector<SampleModel> sample_models();

}  // namespace moh::test
