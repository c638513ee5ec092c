#pragma once

#include <cstdint>

#include "core/device.h"
#include "models/llm/llama_config.h"

namespace moh {

/// Floating-point operations of one training step of a Llama; a multiplication and an addition count as two.
///
/// Forward pass, with N tokens in sequences of T, hidden D, inner width F, H query heads, G KV heads of width
/// d, vocabulary V, and P = N (T + 1) / 2 pairs of a query and a key that the causal mask leaves per head:
///
///   per layer   Q projection        2 N D H d
///               K, V projections    4 N D G d
///               output projection   2 N H d D
///               attention           4 P H d          (q k^T and the weighted sum of v)
///               MLP                 6 N D F          (gate, up, down)
///               router              2 N D R          (R rows of its matrices)
///   once        output matrix       2 N D V
///
/// A training step counts three times that: the gradient of a product is two products of its size. Not
/// counted: what is done element by element, the embedding's look-up, the optimiser, and what a backward pass
/// computes a second time (scores of attention, layers under model.recompute). So the numbers are those of
/// the mathematics, the same for every program that computes it.
struct StepFlops {
  double dense = 0;   ///< of the model with all its heads on and no router
  double routed = 0;  ///< as routed: attention of active heads, projections of projected_heads(), routers
};

/// How many of a layer's heads each token pays for in the two projections whose rows belong to query heads.
struct ProjectedHeads {
  std::int64_t queries = 0;  ///< heads that the Q projection computes
  std::int64_t outputs = 0;  ///< heads that the output projection reads
};

/// What the layers of models/llm/llama_layers.h do with `tokens` tokens in all: on the CPU the heads that
/// attention computes where projecting them alone pays (ops/moh/head_projection.h), else all; a router that
/// looks at the queries needs all of these.
ProjectedHeads projected_heads(const HeadRoutingOptions& routing, std::int64_t head_dim, std::int64_t tokens,
                               Device device);

/// Heads of a layer that training computes attention for, per token: the shared and the selected ones, or all
/// where the straight-through estimator wants the outputs of unselected heads.
std::int64_t attended_heads(const HeadRoutingOptions& routing);

/// `sequences` sequences of `tokens` tokens each, computed together (a micro-batch).
StepFlops step_flops(const LlamaConfig& config, std::int64_t sequences, std::int64_t tokens,
                     Device device = kCpu);

}  // namespace moh
