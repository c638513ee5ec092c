#pragma once

#include <vector>

#include "train/bench/op_cases.h"

// The ops that stream memory, by what they are about.

namespace moh::op_cases {

/// Rows of a hidden state: norms, activations, embedding, loss.
std::vector<StreamingFamily> of_tokens();
/// What vision and diffusion models have besides: patches, modulation by a condition, stochastic depth.
std::vector<StreamingFamily> of_images();
/// Heads: routing, their lists, the cache of keys and values.
std::vector<StreamingFamily> of_heads();
/// Parameters: the gradient's norm, AdamW, moving averages.
std::vector<StreamingFamily> of_updates();

}  // namespace moh::op_cases
