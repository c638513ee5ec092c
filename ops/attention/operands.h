#pragma once

#include <string_view>
#include <type_traits>

#include "autograd/variable.h"
#include "core/tensor.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_kernels.h"
#include "ops/attention/head_lists.h"

// Checks and converts tensors and options to the arguments of the kernels.

namespace moh {

/// Checks heads, head width, keys and options; fills in the masks, the offset and the scale. `op` names the
/// op in messages, `device` holds the operands. document_starts and document_ends of the options must outlive
/// the shape.
void complete_shape(std::string_view op, AttentionShape& shape, Device device,
                    const AttentionOptions& options);

/// Checks options.sequences, which must outlive the shape, against a complete shape of batch 1. On a CPU it
/// becomes the shape of sequences of different lengths.
void divide_sequences(std::string_view op, AttentionShape& shape, Device device,
                      const AttentionOptions& options);
/// Checks gates [B, T, H] and lists, which must match each other, against the shape and device
/// of the queries.
void check_lists(std::string_view op, const AttentionShape& shape, Device device, const Variable& gates,
                 const HeadLists& lists);

/// Pointers to lists for the kernels; for undefined lists, all pairs.
RowLists row_lists(const HeadLists& lists);

/// Model FLOPs of a forward pass over `rows` (token, head) pairs on `device`: q k^T and the weighted sum of v
/// over the keys that a query attends to on average. Documents count where the host holds their ranges; in a
/// dry run and on a GPU, a query sees `mean_visible` keys, or if this is 0, a sequence counts as one
/// document. A backward pass has twice as many: recomputed scores are not counted.
double attention_flops(const AttentionShape& shape, Device device, std::int64_t rows,
                       double mean_visible = 0);

/// Heads from `first_head` on of x [B, T, heads, d]. T may be const.
template <class T>
HeadView<T> view_of(const Tensor& x, std::int64_t first_head = 0) {
  const std::int64_t d = x.dim(3), token = x.dim(2) * d;
  return {x.data<std::remove_const_t<T>>() + first_head * d, x.dim(1) * token, token, d};
}

/// The keys or values of a cache [B, heads, capacity, d].
template <class T>
HeadView<T> view_of_cache(const Tensor& x) {
  const std::int64_t d = x.dim(3), head = x.dim(2) * d;
  return {x.data<std::remove_const_t<T>>(), x.dim(1) * head, d, head};
}

}  // namespace moh
