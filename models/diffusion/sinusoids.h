#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"

namespace moh {

/// Position embeddings of a square grid of tokens as DiT fixes them (arXiv 2212.09748, after MAE), [side^2,
/// width] float64: with w_i = 10000^(-i / (width / 4)), the token in row r and column c has sin(c w), cos(c
/// w), sin(r w), cos(r w), each width / 4 numbers. width is a multiple of 4.
Tensor grid_positions(std::int64_t side, std::int64_t width);

/// The embedding of a time, of any value, as DiT's code computes it, in float32: cos(t f_i), then sin(t f_i),
/// with f_i = 10000^(-i / (width / 2)); t f_i is rounded to float32. Its width, to.size(), is even.
void time_embedding(double t, std::span<float> to);

/// The embeddings of time steps 0, 1, ..., count - 1, [count, width] float32.
Tensor time_embeddings(std::int64_t count, std::int64_t width);

}  // namespace moh
