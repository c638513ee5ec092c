#pragma once

#include <memory>

#include "models/llm/llama.h"

namespace moh::test {

/// Tokens [batch, length] of a vocabulary of 19.
inline Tensor some_tokens(std::int64_t batch, std::int64_t length) {
  Tensor tokens = empty({batch, length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = i * i * 7 % 19;
  return tokens;
}

/// A model in float32, whose routers tell tokens apart.
inline std::unique_ptr<Llama> made(const LlamaConfig& config) {
  auto model = std::make_unique<Llama>(config, DType::kFloat32);
  model->initialise(5);
  for (NamedParameter& p : model->parameters()) {
    if (p.variable.shape().rank() == 2) p.variable.value().scale(8);
  }
  return model;
}

}  // namespace moh::test
