#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/attention/aggregated_attention_kernels.h"
#include "ops/attention/list_walk.h"
#include "ops/attention/unit_rows_cpu.h"

namespace moh {
namespace {

/// Tokens that the queries of a block span at most.
constexpr std::int64_t kMostSpan = 384;

/// Tokens from a query to the furthest of its neighbours.
inline std::int64_t margin_of(const AggregatedShape& s) {
  return s.window / 2 * (s.width + 1);
}

/// Unit keys and values of the tokens [first, end) of a (sequence, head), and in the backward pass the sums
/// of their gradients. The window slides over the image with the queries: rows are packed shortly before
/// their first use and gradients are stored shortly after their last, so that what it holds stays in cache.
template <class F>
struct NearWindow {
  F *k, *v;    // [capacity, padded]
  F *dk, *dv;  // likewise, or null
  F* inverse;
  std::int64_t tokens, capacity;
  std::int64_t first = 0, end = 0, stored = 0;  // gradients of tokens before `stored` are in the tensors

  void lay_out(Arena& arena, const AggregatedShape& shape, bool has_gradients) {
    const std::int64_t padded = round_up_to_lanes<F>(shape.pairs.head_dim);
    tokens = shape.pairs.queries;
    capacity = min_of(tokens, kMostSpan + 2 * margin_of(shape) + kLanes<F>);
    if (shape.window == 0) capacity = 0;
    k = arena.take<F>(capacity * padded);
    v = arena.take<F>(capacity * padded);
    dk = dv = nullptr;
    if (has_gradients) {
      dk = arena.take<F>(capacity * padded);
      dv = arena.take<F>(capacity * padded);
    }
    inverse = arena.take<F>(capacity);
  }
  /// Begins a list at token `begin`.
  void restart(std::int64_t begin) { first = end = stored = begin; }
  std::int64_t row(std::int64_t token, std::int64_t padded) const { return (token - first) * padded; }

  /// Packs tokens up to `upto`, and some more, by whole vectors. Those before `done` are no longer needed;
  /// `store(done)` writes their gradients.
  template <class T, class At, class Store>
  void advance(const HeadView<const T>& from_k, const HeadView<const T>& from_v, const List& list,
               std::int64_t done, std::int64_t upto, const At& at, const Store& store) {
    const std::int64_t padded = at.padded, head_dim = at.d;
    while (end < upto) {
      const std::int64_t here = min_of(kLanes<F>, tokens - end);
      if (end - first + here > capacity) {
        store(min_of(done, end));
        slide(min_of(done, end), padded);
      }
      const std::int64_t to = row(end, padded);
      for (std::int64_t i = 0; i < here; ++i) {
        const std::int64_t ahead = min_of(end + i + kRowsAhead, tokens - 1);
        prefetch_row(key_row(from_k, list, ahead), head_dim);
        prefetch_row(key_row(from_v, list, ahead), head_dim);
        gather_row<T>(key_row(from_k, list, end + i), F(1), k + to + i * padded, head_dim);
        gather_row<T>(key_row(from_v, list, end + i), F(1), v + to + i * padded, head_dim);
      }
      normalise_rows(k + to, here, padded, inverse + end - first);
      if (dk != nullptr) {
        for (F* sum : {dk, dv}) clear_row(sum + to, here * padded);
      }
      end += here;
    }
  }
  /// Writes the gradients of tokens up to `upto`; those of keys have a factor `key_factor`.
  template <class T, class At>
  void store_gradients(const HeadView<T>& to_k, const HeadView<T>& to_v, const List& list, F key_factor,
                       std::int64_t upto, const At& at) {
    if (upto <= stored) return;
    const std::int64_t padded = at.padded, head_dim = at.d;
    const std::int64_t from = row(stored, padded), count = upto - stored;
    store_unit_gradients<T>(dk + from, k + from, inverse + stored - first, count, padded, key_factor,
                            key_row(to_k, list, stored), to_k.token_stride, head_dim);
    for (std::int64_t i = 0; i < count; ++i)
      store_row<T>(dv + from + i * padded, F(1), key_row(to_v, list, stored + i), head_dim);
    stored = upto;
  }

 private:
  void slide(std::int64_t to, std::int64_t padded) {
    const std::int64_t kept = end - to, by = row(to, padded);
    for (F* rows : {k, v, dk, dv}) {
      if (rows != nullptr && kept > 0)
        __builtin_memmove(rows, rows + by, static_cast<std::size_t>(kept * padded) * sizeof(F));
    }
    __builtin_memmove(inverse, inverse + to - first, static_cast<std::size_t>(kept) * sizeof(F));
    first = to;
  }
};

}  // namespace
}  // namespace moh
