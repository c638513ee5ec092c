#pragma once

#include <cstdint>
#include <vector>

#include "core/tensor.h"
#include "ops/attention/attention.h"

namespace moh::test {

/// Sizes of one attention problem.
struct AttentionSizes {
  std::int64_t batch = 1, queries = 1, keys = 1, heads = 1, kv_heads = 1, head_dim = 1;
};

/// Inputs in float64. gates and selected [B, T, H] are undefined for dense attention.
struct AttentionInputs {
  Tensor q, k, v, gates, selected;
};

/// The factor of dropout for the weight of query t of head h of sequence b and key s, of so many heads,
/// queries and keys: by the definition in AttentionOptions.
struct WeightPlace {
  std::int64_t b, h, t, s;
};
double kept_factor(const AttentionOptions& options, const AttentionSizes& sizes, const WeightPlace& at);

/// Random inputs; a pair is selected with probability `share` (below 0: dense, no gates).
AttentionInputs attention_inputs(const AttentionSizes& sizes, double share, std::uint64_t seed = 1);

/// Document starts [B, T] int32 for queries from position `offset` on: a key begins a document with
/// probability `share`, the first one always.
Tensor random_documents(const AttentionSizes& sizes, std::int64_t offset, double share,
                        std::uint64_t seed = 1);

/// The options with documents, and their tensors on `device`: under a causal mask, random_documents of
/// `share`; else a range of keys per query, of which a query begins another with probability `share`. Ranges
/// overlap, or leave out keys.
AttentionOptions with_documents(AttentionOptions options, const AttentionSizes& sizes, double share,
                                Device device);

/// Output and, for a gradient dout of the output, the gradients of q, k, v and gates, in plain float64 loops
/// over pairs (method: the sums of the definition, a whole row of probabilities at a time).
struct AttentionResult {
  Tensor out, dq, dk, dv, dgates;
};
AttentionResult reference_attention(const AttentionInputs& in, const AttentionOptions& options,
                                    const Tensor& dout);

/// [B, T, H, d] queries, then keys, then values, side by side: what a packed projection returns.
Tensor pack_heads(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace moh::test
