#pragma once

#include "core/tensor.h"
#include "ops/attention/attention.h"

namespace moh {

/// With so many queries or more, attention_decode computes a row on a CPU in one way, that of training: its
/// bits are a function of the row's query and of the keys that it sees. A single query reads its keys in
/// place.
inline constexpr std::int64_t kManyDecodeQueries = 2;
/// Keys that a single query's parts have: a multiple of the kernels' blocks of keys, and a constant, so that
/// results do not depend on the number of threads. A cache that drops its first keys by multiples of this
/// changes no bit of what the others give.
inline constexpr std::int64_t kDecodePartKeys = 512;

/// Attention for generation: T query tokens, the last of the num_keys tokens in a cache, against that cache.
/// q [B, T, H, d]; k_cache and v_cache [B, G, capacity, d], of which the first num_keys tokens are read, in
/// place (append_to_cache fills them). gates and lists are undefined for dense attention; for head-sparse
/// attention gates are [B, T, H], and lists, from build_head_lists for the T tokens, name the selected heads:
/// the others are zero, and KV heads that no selected head uses are not read; nor are keys before the window
/// of the first query. Each row's result is that of
/// attention or head_sparse_attention up to rounding, and has the same bits with any number of threads.
/// options.query_offset must be 0: positions follow from num_keys. There are no documents. Not
/// differentiable. Throws ShapeError, DTypeError, DeviceError, ValueError.
Tensor attention_decode(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, std::int64_t num_keys,
                        const Tensor& gates, const HeadLists& lists, const AttentionOptions& options);

}  // namespace moh
