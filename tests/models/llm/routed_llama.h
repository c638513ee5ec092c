#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "models/llm/llama.h"

namespace moh::test {

/// Tokens [batch, length] of a vocabulary of 19.
inline Tensor some_tokens(std::int64_t batch, std::int64_t length) {
  Tensor tokens = empty({batch, length}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = i * i * 7 % 19;
  return tokens;
}

/// A model of 2 layers with 12 heads that share 3 KV heads.
inline LlamaConfig grouped_llama(const MohConfig& moh) {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 24,
                .intermediate = 36,
                .heads = 12,
                .kv_heads = 3,
                .head_dim = 4,
                .max_positions = 32};
  c.moh = moh;
  return c;
}

/// The largest magnitude of a float32 tensor.
inline double largest_of(const Tensor& a) {
  double most = 0;
  for (const float value : a.span<float>()) most = std::max(most, std::abs(double{value}));
  return most;
}

/// The largest difference of two float32 tensors over the largest magnitude of the second.
inline double difference_to(const Tensor& a, const Tensor& b) {
  double most = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    most = std::max(most, std::abs(double{a.data<float>()[i]} - double{b.data<float>()[i]}));
  return most / std::max(largest_of(b), 1e-30);
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
