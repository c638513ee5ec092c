#pragma once

#include "autograd/variable.h"
#include "core/random.h"
#include "ops/attention/head_lists.h"

namespace moh {

/// Sequences of different lengths that are packed into one of batch 1, one after the other.
struct PackedSequences {
  Tensor offsets;            ///< int64 [sequences + 1]: the token with which each begins, and their number
  std::int64_t longest = 0;  ///< in a dry run, which has no offsets: tokens of the longest sequence
  /// Keys that a query sees on average, for the FLOPs where the host does not have the offsets, or
  /// AttentionOptions::document_starts and document_ends.
  double mean_visible = 0;
};

/// Mask, scale and dropout of attention. Query t has position p = query_offset + t, key s position s. The
/// parts of the mask intersect; keys that no query of a tile sees are skipped, forward and backward.
struct AttentionOptions {
  bool causal = true;             ///< a query attends to keys up to its own position; false: to all keys
  double scale = 0.0;             ///< of q k^T; 0 stands for 1 / sqrt(head width)
  std::int64_t query_offset = 0;  ///< position of the first query (keys that come from a cache precede it)
  /// A causal query sees keys p - window + 1 ... p only, as in Mistral 7B (Jiang et al. 2023, arXiv
  /// 2310.06825) and `sliding_window` of transformers; 0: no window.
  std::int64_t window = 0;
  /// [B, T] int32 on the device of q, or undefined: the position of the first key of each query's document;
  /// a query sees no key before it. Ascending in t; under a causal mask at most the query's position. Without
  /// one it needs document_ends.
  Tensor document_starts = {};
  /// [B, T] int32 on the device of q, or undefined; for attention that is not causal: query t sees the keys
  /// from document_starts[t], or from the first, to document_ends[t] - 1. Ascending in t, past the start and
  /// at most S. So a mask has one range per query: sentences of different lengths in one batch (ends that are
  /// their lengths), packed one after the other, or those of another sequence in cross-attention.
  Tensor document_ends = {};
  /// With offsets, the B = 1 sequence consists of several, whose tokens see those of their own alone:
  /// document_starts must be given, and not lie before a token's sequence. Only attention() takes it, under a
  /// causal mask without a window. The CPU then computes each sequence as it would alone: the same bits, if
  /// the longest has at most 2048 tokens (longer ones divide the keys of the backward pass otherwise). A GPU
  /// has the mask alone.
  PackedSequences sequences = {};
  /// Attention dropout: a weight softmax(scale q k^T)_ts is dropped with this probability, 0 <= dropout < 1,
  /// or else divided by 1 - dropout. Weight (b, h, t, s) is kept as element ((b H + h) T + t) 4 ceil(S / 4) +
  /// s of dropout(): a function of the key and its place, for lists as for all pairs, not stored. Not for
  /// sequences.
  double dropout = 0.0;
  RandomKey dropout_key = {};
};

/// Widest head that the kernels of attention take.
inline constexpr std::int64_t kMostHeadDim = 256;

/// Multi-head attention (Vaswani et al. 2017, arXiv 1706.03762), softmax(scale q k^T) v per head, in blocks
/// with online softmax (Dao et al. 2022, arXiv 2205.14135): memory grows linearly with the number of tokens.
/// q [B, T, H, d], k and v [B, S, G, d], of one floating dtype and device; H is a multiple of G, and query
/// head h uses KV head h / (H / G); d at most kMostHeadDim; S at least 1. Returns [B, T, H, d]. Softmax and
/// sums in float32 (float64 for float64). Saves q, k, v, the output, and the log-sum-exp per (token, head).
/// Results have the same bits with any number of threads. With a window, or starts without ends, every query
/// needs a key at its position. The values of document_starts and document_ends are checked where the host
/// holds them; on a GPU, wrong ones give wrong masks, but no access outside the tensors. Throws ShapeError,
/// DTypeError, DeviceError, ValueError.
Variable attention(const Variable& q, const Variable& k, const Variable& v, const AttentionOptions& options);

/// The core of Mixture-of-Head attention (Jin et al. 2024, arXiv 2410.11842, eq. 5): attention as above for
/// the pairs in `lists` only, each head output times its gate; unselected pairs are zero and are never
/// computed, forward or backward. gates [B, T, H] of any floating dtype, usually float32 (arithmetic is in
/// float32, or float64 for float64 q). lists.kv_heads is G. Keys and values are dense: they get gradients
/// from every query that selected the head. The gradient of a gate is <dout, ungated head output>, zero for
/// unselected pairs.
Variable head_sparse_attention(const Variable& q, const Variable& k, const Variable& v, const Variable& gates,
                               const HeadLists& lists, const AttentionOptions& options);

/// Both functions with q, k and v read in place from a packed projection qkv [B, T, H + 2 G, d]: H query
/// heads, then G key heads, then G value heads. The gradient has the same packed layout.
Variable attention_packed(const Variable& qkv, std::int64_t heads, std::int64_t kv_heads,
                          const AttentionOptions& options);
Variable head_sparse_attention_packed(const Variable& qkv, const Variable& gates, const HeadLists& lists,
                                      const AttentionOptions& options);

}  // namespace moh
