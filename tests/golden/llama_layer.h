#pragma once

#include "models/llm/llama_config.h"
#include "tests/golden/json_layers.h"

namespace moh::test {

/// A LLaMA of one layer with the width and the heads of a case, or else of its file.
inline LlamaConfig one_layer(const Json& file, const Json& golden_case) {
  const auto size = [&](const char* key) -> std::int64_t {
    return golden_case.contains(key) ? golden_case[key] : file[key];
  };
  LlamaConfig c;
  c.layers = 1;
  c.hidden = size("width");
  c.heads = size("heads");
  c.kv_heads = size("kv_heads");
  c.head_dim = size("head_dim");
  return c;
}

}  // namespace moh::test
