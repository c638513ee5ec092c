#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Bump allocator: cuts a block of scratch into pieces aligned to 64 bytes; without a block it
/// only counts bytes.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}
  template <class F>
  F* take(std::int64_t count) {
    F* piece = base_ ? reinterpret_cast<F*>(base_ + used_) : nullptr;
    used_ += (static_cast<std::size_t>(count) * sizeof(F) + 63) / 64 * 64;
    return piece;
  }
  std::size_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

template <class F>
void set_zero(F* to, std::int64_t count) {
  __builtin_memset(to, 0, static_cast<std::size_t>(count) * sizeof(F));
}
template <class F>
void copy_rows(const F* from, F* to, std::int64_t count) {
  __builtin_memcpy(to, from, static_cast<std::size_t>(count) * sizeof(F));
}

// Rows of head_dim elements: unpadded in tensors, in scratch padded with zeros to whole vectors.

/// to = factor * from, from a tensor into scratch, upcast.
template <class T>
[[gnu::always_inline]] inline void gather_row(const T* from, Acc<T> factor, Acc<T>* to,
                                              std::int64_t head_dim) {
  constexpr int kN = kLanes<Acc<T>>;
  std::int64_t c = 0;
  for (; c + kN <= head_dim; c += kN) store(to + c, load_as<T>(from + c) * factor);
  if (c < head_dim) store(to + c, load_first<T>(from + c, head_dim - c) * factor);
}
/// to = factor * from, from scratch into a tensor.
template <class T>
[[gnu::always_inline]] inline void store_row(const Acc<T>* from, Acc<T> factor, T* to,
                                             std::int64_t head_dim) {
  constexpr int kN = kLanes<Acc<T>>;
  std::int64_t c = 0;
  for (; c + kN <= head_dim; c += kN) store_as<T>(to + c, load(from + c) * factor);
  if (c < head_dim) store_first<T>(to + c, load(from + c) * factor, head_dim - c);
}
/// The inner product of two rows in tensors.
template <class T>
Acc<T> dot_rows(const T* a, const T* b, std::int64_t head_dim) {
  constexpr int kN = kLanes<Acc<T>>;
  Vec<Acc<T>> sum{};
  std::int64_t c = 0;
  for (; c + kN <= head_dim; c += kN) sum += load_as<T>(a + c) * load_as<T>(b + c);
  if (c < head_dim) sum += load_first<T>(a + c, head_dim - c) * load_first<T>(b + c, head_dim - c);
  return sum_lanes<Acc<T>>(sum);
}
/// to += from, both in scratch.
template <class F>
[[gnu::always_inline]] inline void add_row(const F* from, F* to, std::int64_t padded_dim) {
  for (std::int64_t c = 0; c < padded_dim; c += kLanes<F>) store(to + c, load(to + c) + load(from + c));
}

/// Transposes one square of pack_transposed: `rows` x `dims` elements, padded with zeros to kLanes x kLanes.
template <class T>
[[gnu::always_inline]] inline void pack_square(const T* from, std::int64_t from_row, int rows, int dims,
                                               Acc<T>* to, std::int64_t width) {
  using F = Acc<T>;
  constexpr int kN = kLanes<F>;
  Vec<F> square[kN];
#pragma GCC unroll 16
  for (int r = 0; r < kN; ++r) {
    const T* row = from + r * from_row;
    square[r] = r >= rows ? Vec<F>{} : dims == kN ? load_as<T>(row) : load_first<T>(row, dims);
  }
  transpose_square<F>(square);
#pragma GCC unroll 16
  for (int r = 0; r < kN; ++r) {
    if (r < dims) store(to + r * width, square[r]);
  }
}

/// to[c, i] = from[i * from_row + c] for i < count and c < head_dim; rows of `to` are `width` long, a
/// multiple of the lanes, and zero from `count` on.
template <class T>
void pack_transposed(const T* from, std::int64_t from_row, std::int64_t count, std::int64_t head_dim,
                     Acc<T>* to, std::int64_t width) {
  constexpr int kN = kLanes<Acc<T>>;
  for (std::int64_t i = 0; i < width; i += kN) {
    for (std::int64_t c = 0; c < head_dim; c += kN) {
      const T* corner = from + i * from_row + c;
      Acc<T>* place = to + c * width + i;
      if (i + kN <= count && c + kN <= head_dim) {
        pack_square<T>(corner, from_row, kN, kN, place, width);
      } else {
        const std::int64_t rows = count > i ? count - i : 0, dims = head_dim - c;
        pack_square<T>(corner, from_row, static_cast<int>(rows < kN ? rows : kN),
                       static_cast<int>(dims < kN ? dims : kN), place, width);
      }
    }
  }
}

}  // namespace
}  // namespace moh
