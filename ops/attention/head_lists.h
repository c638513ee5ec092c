#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// The (token, query head) pairs that head-sparse attention computes, one list per (batch, KV head): list
/// l = batch * kv_heads + kv_head is rows[offsets[l]] ... rows[offsets[l + 1] - 1]. A row is position | local
/// head
/// << 20: the token's position in its sequence, and the query head's number inside the KV head's group. Rows
/// ascend by position, then by local head. Merging the heads of a group makes dK and dV private to one list.
struct HeadLists {
  Tensor rows;     ///< int32 [selected pairs]
  Tensor offsets;  ///< int64 [batch * kv_heads + 1]
  std::int64_t batch = 0, tokens = 0, heads = 0, kv_heads = 0;

  std::int64_t num_rows() const { return rows.numel(); }
};

/// Lists of the nonzero elements of `selected`, uint8 [B, T, H] on the CPU; any number of heads per token,
/// none included. heads must be a multiple of kv_heads. Throws ShapeError, DTypeError, and ValueError for
/// 2^20 tokens or more, which a row cannot hold.
HeadLists build_head_lists(const Tensor& selected, std::int64_t kv_heads);

}  // namespace moh
