#pragma once

#include "autograd/variable.h"
#include "ops/attention/attention.h"
#include "ops/attention/head_lists.h"

namespace moh {

/// Windows of the rows of a head, and how their positions are counted.
struct HeadSequenceOptions {
  /// As in AttentionOptions: rows see those of their own document alone.
  Tensor document_starts = {};
  bool reset_positions = false;    ///< positions begin anew with each document
  bool positions_in_head = false;  ///< a row's position is its number in its head's sequence, not the token's
  /// [H] int32, or undefined: the rows of its head that a row sees, itself included; 0: all up to itself.
  Tensor windows = {};
  /// [B H] int32, or undefined: the position in the head of each sequence's first row (rows in a cache
  /// precede it).
  Tensor first_positions = {};
};

/// The selected (token, head) pairs of B sequences of T tokens as B H sequences of rows, one for each
/// (sequence, head), by position, one after the other: R rows in all (NAMOH, arXiv 2609.38832). Where rows
/// of the lists are an upper bound, on a GPU, those beyond the pairs are 0 and see themselves alone.
struct HeadSequences {
  std::int64_t batch = 0, tokens = 0, heads = 0;
  Tensor pairs;              ///< int64 [R]: (b T + t) H + h; -1 beyond the pairs
  Tensor positions;          ///< int32 [1, R], for rope_at()
  Tensor starts;             ///< int32 [1, R]: the first row that a row sees
  Tensor offsets;            ///< int64 [B H + 1], of the sequences
  std::int64_t longest = 0;  ///< in a dry run: rows of the longest sequence

  std::int64_t num_rows() const { return pairs.numel(); }
};

/// The sequences of lists with one head each (kv_heads = heads). Throws ShapeError, DTypeError, DeviceError,
/// and ValueError for 2^31 rows or more.
HeadSequences head_sequences(const HeadLists& lists, const HeadSequenceOptions& options = {});

/// y[0, r, 0] = x[pairs[r]]: x [B, T, H, d] to [1, R, 1, d], queries, keys or values of dense attention with
/// AttentionOptions::sequences. The gradient of x is that of y at the pairs, and 0 elsewhere. Throws
/// ShapeError, DTypeError, DeviceError.
Variable gather_pairs(const Variable& x, const HeadSequences& sequences);

/// x[pairs[r]] = gates[pairs[r]] y[0, r, 0], and 0 for the other pairs: y [1, R, 1, d] to [B, T, H, d]. gates
/// [B, T, H], of any floating dtype, usually float32 (arithmetic is in float32, or float64 for float64 y).
/// The gradient of a gate is <dx, y> over the head, 0 for pairs without a row. Saves y, gates and pairs.
/// Throws ShapeError, DTypeError, DeviceError.
Variable scatter_pairs(const Variable& y, const Variable& gates, const HeadSequences& sequences);

}  // namespace moh
