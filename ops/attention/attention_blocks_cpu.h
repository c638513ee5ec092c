#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// The common part of the forward and the backward pass of head-sparse attention: sizes of blocks of rows, and
// the types of what is multiplied.

#include "ops/attention/attention_kernels.h"
#include "ops/attention/dropout_cpu.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/softmax_cpu.h"
#include "ops/cpu/pack.h"
#include "ops/cpu/tile.h"

namespace moh {
namespace {

constexpr std::int64_t kMaxRowBlock = std::int64_t{12} * kTileRows;
/// Rows per block, such that the operands of a block and of a key block fit in L1 or little more.
inline std::int64_t row_block(std::int64_t head_dim) {
  return head_dim <= 64 ? kMaxRowBlock : std::int64_t{8} * kTileRows;
}
constexpr double kLn2 = 0.6931471805599453;

/// The keys of the block from `key` on that a tile sees, rows [begin, end) of `rows`.
[[gnu::always_inline]] inline Range seen_by_tile(const Range* seen, std::int64_t begin, std::int64_t rows,
                                                 std::int64_t key) {
  const std::int64_t last = min_of(begin + kTileRows, rows) - 1;
  return in_block({seen[begin].begin, seen[last].end}, key);
}

}  // namespace
}  // namespace moh
