#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "core/dry_run.h"
#include "ops/optim/adamw.h"
#include "ops/optim/adamw_kernels.h"
#include "ops/optim/clip_grad_norm_kernels.h"
#include "ops/optim/optimizer_chunk.h"

namespace moh {

/// Elements of a chunk. A dry run has one chunk per parameter: it computes nothing, and the tables of chunks
/// would be most of its real memory.
inline std::int64_t optimizer_chunk() {
  return dry_run() ? std::numeric_limits<std::int64_t>::max() / 2 : kOptimizerChunk;
}

/// Chunks of all tensors of dtype T, in their order; none for undefined tensors.
template <class T>
std::vector<GradChunk<T>> grad_chunks(std::span<const Tensor> grads) {
  std::vector<GradChunk<T>> chunks;
  const std::int64_t most = optimizer_chunk();
  for (const Tensor& grad : grads) {
    if (!grad.defined() || grad.dtype() != dtype_of<T>()) continue;
    for (std::int64_t begin = 0; begin < grad.numel(); begin += most) {
      chunks.push_back({grad.data<T>() + begin, std::min(most, grad.numel() - begin)});
    }
  }
  return chunks;
}

/// Whether the value of a parameter has dtype T and its gradient, which may not be there yet, G.
template <class T, class G>
bool has_types(const AdamWParameter& p) {
  return p.value.dtype() == dtype_of<T>() && p.grad_type() == dtype_of<G>();
}

/// Chunks of all parameters of these types, in their order. Hyperparameters that are not yet among `scales`
/// are added to them.
template <class T, class G>
std::vector<AdamWChunk<T, G>> adamw_chunks(std::span<const AdamWParameter> parameters,
                                           std::vector<AdamWScale>& scales) {
  using A = Acc<T>;
  const std::int64_t most = optimizer_chunk();
  std::vector<AdamWChunk<T, G>> chunks;
  for (const AdamWParameter& p : parameters) {
    if (!has_types<T, G>(p)) continue;
    const AdamWScale scale{p.weight_decay, p.learning_rate_scale, p.rule()};
    const auto number = std::find(scales.begin(), scales.end(), scale) - scales.begin();
    if (number == std::ssize(scales)) scales.push_back(scale);
    A* const squares = p.rule() == UpdateRule::kAdamW ? p.exp_avg_sq.data<A>() : nullptr;
    A* const master = p.master.defined() ? p.master.data<A>() : nullptr;
    for (std::int64_t begin = 0; begin < p.value.numel(); begin += most) {
      chunks.push_back({.value = p.value.data<T>() + begin,
                        .grad = p.grad.defined() ? p.grad.data<G>() + begin : nullptr,
                        .exp_avg = p.by_elements() ? p.exp_avg.data<A>() + begin : nullptr,
                        .exp_avg_sq = squares ? squares + begin : nullptr,
                        .master = master ? master + begin : nullptr,
                        .count = std::min(most, p.value.numel() - begin),
                        .rate = number});
    }
  }
  return chunks;
}

}  // namespace moh
