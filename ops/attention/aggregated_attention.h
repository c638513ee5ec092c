#pragma once

#include "autograd/variable.h"
#include "ops/attention/head_lists.h"

namespace moh {

/// Attention of TransNeXt (Shi 2023, arXiv 2311.17132), and its Mixture-of-Head form (arXiv 2410.11842):
/// cosine similarity with a query embedding, a temperature and a factor that grows with the number of keys,
/// and biases by relative position.

/// Learned tensors of a layer with H heads of width d.
struct CosineParameters {
  Variable query_embedding;  ///< [H, 1, d]: e
  Variable temperature;      ///< [H, 1, 1]: tau, before softplus
  Variable position_bias;    ///< [H, N, M]: added to the logits, see position_bias()
};
struct WindowParameters {
  Variable bias;        ///< [H, w^2]: b, added to the logits of the neighbours
  Variable tokens;      ///< [H, d, w^2]: L, learnable tokens
  Variable token_bias;  ///< [H, 1, w^2]: l
};

/// The pairs to compute, and the gates [B, N, H] of any floating dtype by which their outputs are multiplied;
/// both undefined: all pairs with gate 1. lists.kv_heads is H.
struct SelectedPairs {
  Variable gates;
  HeadLists lists;
  /// Sparse attention: of the keys that a pair sees, percent that take part in the softmax (rounded up):
  /// those of the largest logits, with all that are equal to the last. The learned weights of neighbours,
  /// which are added after the softmax, keep all of them.
  std::int64_t kept_percent = 100;
};

/// Tokens of an image, row by row, and the side of the window around each, odd.
struct TokenGrid {
  std::int64_t height = 0, width = 0, window = 3;
};

/// Aggregated attention (section 3.1 there): each query sees the w^2 tokens around its own, those inside the
/// image, and M pooled tokens, under one softmax. With u(x) = x / max(|x|, 1e-12), for each head,
///   q' = (u(q) + e) softplus(tau) log(number of visible keys)
///   a = softmax over both groups of [q' u(k_j) + b_j | q' u(p_m) + position_bias_m]
///   head = sum_j (a_j + u(q) L_j + l_j) v_j + sum_m a_m vp_m
/// q [B, N, H, d]; local [B, N, 2 H, d], the keys of all heads, then their values; pooled [B, M, 2 H, d]
/// likewise; one floating dtype, parameters in it or its accumulation dtype; d at most kMostHeadDim. Returns
/// [B, N, H, d], times the gates. Unselected pairs are zero and are never computed in any of the three parts,
/// forward or backward; keys and values are dense. Softmax and sums in float32 (float64 for float64). Saves
/// its operands and the log-sum-exp per pair. Results have the same bits with any number of threads. Throws
/// ShapeError, DTypeError, DeviceError, ValueError.
Variable aggregated_attention(const Variable& q, const Variable& local, const Variable& pooled,
                              const CosineParameters& cosine, const WindowParameters& window,
                              const TokenGrid& grid, const SelectedPairs& selected = {});

/// The attention above without a window, where every query sees all N tokens: the last stage of TransNeXt.
/// qkv [B, N, 3 H, d]: queries of all heads, then keys, then values; so is its gradient.
Variable cosine_attention_packed(const Variable& qkv, const CosineParameters& cosine,
                                 const SelectedPairs& selected = {});

}  // namespace moh
