#pragma once

#include "ops/cpu/reduce.h"
#include "ops/embedding/embedding_kernels.h"

// Bytes of scratch of the backward pass on the CPU. As in ops/cpu/reduce.h, everything has internal linkage.

namespace moh {
namespace {

/// For `starts` and `places` of group_by_id.
[[maybe_unused]] [[gnu::always_inline]] inline std::size_t group_by_id_bytes(EmbeddingSizes sizes) {
  return static_cast<std::size_t>(sizes.num_rows + 1 + sizes.num_ids) * sizeof(std::int64_t);
}

/// Three rows for each chunk of ids.
template <class A>
[[maybe_unused]] [[gnu::always_inline]] inline std::size_t run_sums_bytes(EmbeddingSizes sizes) {
  const std::int64_t chunks = num_chunks(sizes.num_ids, row_grain(sizes.num_ids, sizes.width));
  return static_cast<std::size_t>(chunks * 3 * sizes.width) * sizeof(A);
}

}  // namespace
}  // namespace moh
