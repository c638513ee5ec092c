#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu_isa.h"
#include "core/dtype.h"

namespace moh {

/// Columns per pass over the heads of a block of tokens.
inline constexpr std::int64_t kProjectionPanel = 64;
/// Maximum number of columns of a token vector per task of the weight gradient.
inline constexpr std::int64_t kProjectionColumns = 4 * kProjectionPanel;
/// Maximum number of rows of a list per task.
inline constexpr std::int64_t kProjectionRows = 960;
/// Maximum number of tokens per task.
inline constexpr std::int64_t kProjectionTokens = 256;

/// Weights between token vectors of `width` elements and heads: W_h [d, width] for each head, stored as
/// [H d, width], or, `by_column`, as [width, H d].
template <class W>
struct HeadWeights {
  W* data = nullptr;
  bool by_column = false;
};

/// Token vectors tokens[b * T + t], `width` elements each; heads[b * T + t, h], d elements each, in rows of
/// head_row elements; and per (b, h) the list of positions t.
struct HeadProjection {
  std::int64_t batch = 0, tokens = 0, heads = 0, head_dim = 0, width = 0, head_row = 0;
  const std::int32_t* rows = nullptr;
  const std::int64_t* offsets = nullptr;  ///< [batch * heads + 1]
};

/// Rows [begin, end) of a head, numbered through its lists of all sequences, which have `rows` rows together.
struct HeadTask {
  std::int64_t head = 0, rows = 0, begin = 0, end = 0;
};
/// Tokens [begin, end) of a sequence.
struct TokenTask {
  std::int64_t batch = 0, begin = 0, end = 0;
};
/// Columns [begin, end) of the token vectors, for one head with `rows` rows in all its lists.
struct ColumnTask {
  std::int64_t head = 0, rows = 0, begin = 0, end = 0;
};

/// The CPU kernels: each call computes one task, in scratch memory of the caller, aligned to 64 bytes.
template <class Backend, class T>
struct HeadProjectionKernels {
  using F = Acc<T>;

  /// heads[i, h] = W_h tokens[i] + bias_h for the task's rows, and zeros for the tokens between them; the
  /// task with a head's first row also zeroes the tokens before it, the one with its last row those after it.
  static std::size_t to_heads_scratch_bytes(const HeadProjection& p);
  static void to_heads(const HeadProjection& p, HeadWeights<const T> w, const T* bias, const T* tokens,
                       T* heads, const HeadTask& task, std::byte* scratch);

  /// Packs the weights of a head for columns [first, first + kProjectionPanel) for from_heads, zero after the
  /// last column.
  static std::size_t panel_bytes(std::int64_t head_dim);
  static void pack_panel(const HeadProjection& p, HeadWeights<const T> w, std::int64_t head,
                         std::int64_t first, std::byte* panel);
  /// tokens[i] = sum of W_h^T heads[i, h] over the heads that list the token, + bias, + tokens[i] if
  /// `accumulate`. panels [panel, head] are those of pack_panel.
  static std::size_t from_heads_scratch_bytes(const HeadProjection& p);
  static void from_heads(const HeadProjection& p, const std::byte* panels, const T* bias, const T* heads,
                         bool accumulate, T* tokens, const TokenTask& task, std::byte* scratch);

  /// dW_h[:, columns of the task] = sum of heads[i, h] tokens[i]^T over the listed tokens; a task that begins
  /// at column 0 writes dbias_h, the sum of heads[i, h], too, unless it is null.
  static std::size_t weight_gradient_scratch_bytes(const HeadProjection& p);
  static void weight_gradient(const HeadProjection& p, const T* heads, const T* tokens, HeadWeights<F> dw,
                              F* dbias, const ColumnTask& task, std::byte* scratch);
};

}  // namespace moh
