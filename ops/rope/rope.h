#pragma once

#include <cstdint>

#include "autograd/variable.h"
#include "ops/rope/rope_scaling.h"

namespace moh {

/// Cosines and sines of the angles p f_i for positions p = 0 ... P - 1 and the frequencies f_i of pairs
/// i = 0 ... d/2 - 1: theta^(-2i / d) without scaling. Built once per model; copies share the tensors.
struct RopeTable {
  Tensor cos;  ///< [P, d/2]
  Tensor sin;  ///< [P, d/2]
};

/// The table for P = num_positions and the rope_frequencies() of d = head_dim, theta and `scaling`. Angles
/// are computed in double precision on the host, whatever the device, and stored as `dtype`, float32 or
/// float64. Throws ShapeError, DTypeError, ValueError.
RopeTable rope_table(std::int64_t num_positions, std::int64_t head_dim, double theta,
                     DType dtype = DType::kFloat32, Device device = kCpu, const RopeScaling& scaling = {});

/// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in the layout of LLaMA: element i of the
/// first half of a head is paired with element i of the second half,
///   y_i       = x_i cos(a) - x_{i+d/2} sin(a)
///   y_{i+d/2} = x_{i+d/2} cos(a) + x_i sin(a),   a = p f_i, p = first_position + t.
/// x [B, T, H, d] of any floating dtype; the table has d/2 columns, at least first_position + T rows, and
/// dtype float32 (float64 for a float64 x). first_position > 0 continues a sequence whose first tokens are in
/// a KV cache. With document_starts [B, T] int32 on the device of x, as in AttentionOptions, positions begin
/// anew with each document: p = first_position + t - document_starts[b, t]; starts outside of 0 ... t are
/// read as 0. The backward pass is the inverse rotation. Saves the table. Throws ShapeError, DTypeError,
/// DeviceError, ValueError.
Variable rope(const Variable& x, const RopeTable& table, std::int64_t first_position = 0,
              const Tensor& document_starts = {});

}  // namespace moh
