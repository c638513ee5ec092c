#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor.h"

namespace moh {

/// The (token, query head) pairs that head-sparse attention computes, one list per (batch, KV head): list
/// l = batch * kv_heads + kv_head is rows[offsets[l]] ... rows[offsets[l + 1] - 1]. A row is position | local
/// head << 20: the token's position in its sequence, and the query head's number inside the KV head's group.
/// Rows ascend by position, then by local head. All query heads of a KV head share a list, so that dK and dV
/// of that head are written by one list only.
struct HeadLists {
  Tensor rows;     ///< int32 [selected pairs]
  Tensor offsets;  ///< int64 [batch * kv_heads + 1]
  std::int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0;
  std::int64_t longest = 0;  ///< in a dry run, whose lists have no contents: rows of the longest list

  /// The number of pairs; an upper bound on a GPU, which is not waited for, and in a dry run.
  std::int64_t num_rows() const { return rows.numel(); }
};

/// The heads of a token in a selection: an upper bound, or, if `exact`, their number in every token.
struct HeadsPerToken {
  // NOLINTNEXTLINE: a number alone is a bound
  HeadsPerToken(std::int64_t most_heads, bool is_exact = false) : most(most_heads), exact(is_exact) {}

  std::int64_t most;
  bool exact;
};

/// Lists of the nonzero elements of `selected`, uint8 [B, T, H]; any number of heads per token, even none.
/// heads must be a multiple of kv_heads. With a bound for the heads of a token memory on a GPU need not
/// suffice for all of them, and where their number is exact a list knows its place without reading the
/// sequences before it; what does not hold makes the next synchronization throw. A dry run assumes that each
/// token has as many, in lists of equal lengths.
/// Throws ShapeError, DTypeError, and ValueError for 2^20 tokens or more, which a row cannot hold.
HeadLists build_head_lists(const Tensor& selected, std::int64_t kv_heads,
                           std::optional<HeadsPerToken> per_token = std::nullopt);

}  // namespace moh
