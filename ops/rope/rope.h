#pragma once

#include <cstdint>
#include <string_view>

#include "autograd/variable.h"
#include "ops/rope/rope_scaling.h"

namespace moh {

/// Cosines and sines of the angles p f_i for P consecutive positions p and the frequencies f_i of pairs
/// i = 0 ... d/2 - 1, theta^(-2i / d) without scaling; times rope_attention_factor(). Copies share the
/// tensors.
struct RopeTable {
  Tensor cos;  ///< [P, d/2]
  Tensor sin;  ///< [P, d/2]

  /// The rows of `count` positions, from the table's row number `first` on: a view. Throws ValueError beyond
  /// its last row.
  RopeTable rows(std::int64_t first, std::int64_t count) const;
};

/// The table for the P = num_positions positions from first_position on and the rope_frequencies() of
/// d = head_dim, theta and `scaling`, for a sequence that ends there. Angles are computed in double precision
/// on the host, whatever the device, and stored as `dtype`, float32 or float64. Throws ShapeError,
/// DTypeError, ValueError.
RopeTable rope_table(std::int64_t num_positions, std::int64_t head_dim, double theta,
                     DType dtype = DType::kFloat32, Device device = kCpu, const RopeScaling& scaling = {},
                     std::int64_t first_position = 0);

/// Rotary position embedding (Su et al. 2021, arXiv 2104.09864) in the layout of LLaMA: element i of the
/// first half of a head is paired with element i of the second half,
///   y_i       = x_i cos(a) - x_{i+d/2} sin(a)
///   y_{i+d/2} = x_{i+d/2} cos(a) + x_i sin(a),   a = p f_i, p the position of the table's row t.
/// x [B, T, H, d] of any floating dtype; the table has d/2 columns, at least T rows, and dtype float32
/// (float64 for a float64 x). With document_starts [B, T] int32 on the device of x, as in AttentionOptions,
/// positions begin anew with each document, at the table's first: row t - document_starts[b, t]; starts
/// outside of 0 ... t are read as 0. The backward pass is the transposed map: the inverse rotation, times the
/// square of the table's factor. Saves the table. Throws ShapeError, DTypeError, DeviceError, ValueError.
Variable rope(const Variable& x, const RopeTable& table, const Tensor& document_starts = {});

/// rope() of the first `heads` heads of each token of a packed projection qkv [B, T, N, d]; the others are
/// left as they are, and so are, with `selected`, uint8 [B, T, H] on the device of qkv, those of the first H
/// heads, H at most `heads`, whose element is 0: the queries that attention over lists neither reads nor
/// gives a gradient. In place: qkv's own tensor becomes the result, so nothing else may read it, such as the
/// op that computed it in its backward pass. linear() and packed_linear() do not.
Variable rope_packed(const Variable& qkv, std::int64_t heads, const RopeTable& table,
                     const Tensor& document_starts = {}, const Tensor& selected = {});

/// rope() with the table's row positions[b, t], int32 [B, T] on the device of x, for token t: tokens need not
/// be neighbours. Where the host holds them, positions outside of the table throw ValueError; on a GPU they
/// are read as the nearest.
Variable rope_at(const Variable& x, const RopeTable& table, const Tensor& positions);

/// Throws what rope() does for a table and starts that do not fit x [B, T, H, d]; `op` names the op in the
/// message.
void check_rope_operands(std::string_view op, const Variable& x, const RopeTable& table,
                         const Tensor& document_starts);

}  // namespace moh
