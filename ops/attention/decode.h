#pragma once

#include "core/tensor.h"
#include "ops/attention/attention.h"

namespace moh {

/// Attention for generation: T query tokens, the last of the num_keys tokens in a cache, against that cache.
/// q [B, T, H, d]; k_cache and v_cache [B, capacity, G, d], of which the first num_keys tokens are read, in
/// place. gates and selected are undefined for dense attention; for head-sparse attention gates are [B, T, H]
/// and selected, uint8, has one element per (batch, token, head) in that order: heads that are not selected
/// are zeros, and KV heads that no selected head uses are not read. Each row's result is that of attention or
/// head_sparse_attention up to rounding, and has the same bits with any number of threads.
/// options.query_offset must be 0: the cache says where the queries stand. Nothing is recorded. Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
Tensor attention_decode(const Tensor& q, const Tensor& k_cache, const Tensor& v_cache, std::int64_t num_keys,
                        const Tensor& gates, const Tensor& selected, const AttentionOptions& options);

}  // namespace moh
