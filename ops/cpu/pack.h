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
  // NOLINTNEXTLINE: scratch is null only where its bytes are counted
  __builtin_memset(static_cast<void*>(to), 0, static_cast<std::size_t>(count) * sizeof(F));
}
template <class F>
void copy_rows(const F* from, F* to, std::int64_t count) {
  // NOLINTNEXTLINE: likewise
  __builtin_memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(count) * sizeof(F));
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

// Operands of products, packed as factors F: elements of T, upcast, or pairs of bfloat16, of which the last
// one of an odd number of elements has a zero.

/// Factors in `elements` elements.
template <class F>
constexpr std::int64_t factors_in(std::int64_t elements) {
  return (elements + kTerms<F> - 1) / kTerms<F>;
}
/// Whether factors are pairs.
template <class T>
constexpr bool kPairs = kTerms<Factor<T>> == 2;
/// The type of probabilities and of gradients of scores, elements of factors.
template <class T>
using Weight = std::conditional_t<kPairs<T>, bfloat16, Acc<T>>;

/// `count` elements as factors.
template <class T>
Factor<T>* as_factors(Weight<T>* elements) {
  return reinterpret_cast<Factor<T>*>(elements);
}

/// A vector of factors, from neighbouring elements; load_first_factors: from the first `elements`, fewer than
/// that, zeros behind them.
template <class T, class F>
[[gnu::always_inline]] inline Vec<F> load_factors(const T* from) {
  if constexpr (std::is_same_v<F, Bf16Pair>) {
    Vec<F> v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  } else {
    return load_as<T>(from);
  }
}
template <class T, class F>
[[gnu::always_inline]] inline Vec<F> load_first_factors(const T* from, std::int64_t elements) {
  if constexpr (std::is_same_v<F, Bf16Pair>) {
#if defined(__AVX512F__)
    return (Vec<F>)_mm512_maskz_loadu_epi16(first_lanes<__mmask32>(elements), from);
#else
    Vec<F> v{};
    __builtin_memcpy(&v, from, static_cast<std::size_t>(elements) * sizeof(T));
    return v;
#endif
  } else {
    return load_first<T>(from, elements);
  }
}

/// Transposes one square of pack_transposed: `rows` rows of `elements` elements, padded with zeros to
/// kLanes x kLanes factors.
template <class T, class F>
[[gnu::always_inline]] inline void pack_square(const T* from, std::int64_t from_row, int rows, int elements,
                                               F* to, std::int64_t width) {
  constexpr int kN = kLanes<F>;
  Vec<F> square[kN];
#pragma GCC unroll 16
  for (int r = 0; r < kN; ++r) {
    const T* row = from + r * from_row;
    square[r] = r >= rows                    ? Vec<F>{}
                : elements == kN * kTerms<F> ? load_factors<T, F>(row)
                                             : load_first_factors<T, F>(row, elements);
  }
  transpose_square<F>(square);
#pragma GCC unroll 16
  for (int r = 0; r < kN; ++r) {
    if (r * kTerms<F> < elements) store(to + r * width, square[r]);
  }
}

/// to[c, i] = factor c of the elements from[i * from_row ...] for i < count and c < factors_in(head_dim);
/// rows of `to` are `width` long, a multiple of the lanes, and zero from `count` on.
template <class T, class F = Acc<T>>
void pack_transposed(const T* from, std::int64_t from_row, std::int64_t count, std::int64_t head_dim, F* to,
                     std::int64_t width) {
  constexpr int kN = kLanes<F>, kElements = kN * static_cast<int>(kTerms<F>);
  for (std::int64_t i = 0; i < width; i += kN) {
    for (std::int64_t c = 0; c < head_dim; c += kElements) {
      const T* corner = from + i * from_row + c;
      F* place = to + c / kTerms<F> * width + i;
      if (i + kN <= count && c + kElements <= head_dim) {
        pack_square<T, F>(corner, from_row, kN, kElements, place, width);
      } else {
        const std::int64_t rows = count > i ? count - i : 0, rest = head_dim - c;
        pack_square<T, F>(corner, from_row, static_cast<int>(rows < kN ? rows : kN),
                          static_cast<int>(rest < kElements ? rest : kElements), place, width);
      }
    }
  }
}

/// to = the factors of a row of `count` elements, zeros up to whole vectors of them: elements times `factor`,
/// but pairs as they stand, so that their bits are kept; their products are to be multiplied by `factor`.
template <class T>
[[gnu::always_inline]] inline void gather_factors(const T* from, Acc<T> factor, Factor<T>* to,
                                                  std::int64_t count) {
  using P = Factor<T>;
  if constexpr (kTerms<P> == 2) {
    constexpr std::int64_t kElements = kLanes<P> * kTerms<P>;
    std::int64_t c = 0;
    for (; c + kElements <= count; c += kElements) store(to + c / 2, load_factors<T, P>(from + c));
    if (c < count) store(to + c / 2, load_first_factors<T, P>(from + c, count - c));
  } else {
    gather_row<T>(from, factor, to, count);
  }
}
/// Length of such a row, in factors.
template <class T>
constexpr std::int64_t row_factors(std::int64_t count) {
  return round_up_to_lanes<Factor<T>>(factors_in<Factor<T>>(count));
}

/// Pairs of a lane of `from` and the same one of `next`.
[[gnu::always_inline]] inline Vec<Bf16Pair> zip_pairs(Vec<std::uint16_t, kLanes<Bf16Pair>> from,
                                                      Vec<std::uint16_t, kLanes<Bf16Pair>> next) {
  return __builtin_convertvector(from, Vec<Bf16Pair>) | (__builtin_convertvector(next, Vec<Bf16Pair>) << 16);
}
/// to = pairs of two rows of `count` elements, zeros up to whole vectors; without `next` its elements are
/// zero.
[[gnu::always_inline]] inline void gather_pairs(const bfloat16* from, const bfloat16* next, Bf16Pair* to,
                                                std::int64_t count) {
  constexpr int kN = kLanes<Bf16Pair>;
  for (std::int64_t c = 0; c < count; c += kN) {
    Vec<std::uint16_t, kN> rows[2] = {};
    if (c + kN <= count) {
      __builtin_memcpy(&rows[0], from + c, sizeof rows[0]);
      if (next != nullptr) __builtin_memcpy(&rows[1], next + c, sizeof rows[1]);
    } else {
      rows[0] = load_first_halves(from + c, count - c);
      if (next != nullptr) rows[1] = load_first_halves(next + c, count - c);
    }
    store(to + c, zip_pairs(rows[0], rows[1]));
  }
}
/// The right operand of a sum over rows: to = the factors of `count` rows row_at(i) of `head_dim` elements,
/// rows of `padded` factors.
template <class T, class RowAt>
[[gnu::always_inline]] inline void pack_right_rows(const RowAt& row_at, std::int64_t count,
                                                   std::int64_t head_dim, Factor<T>* to,
                                                   std::int64_t padded) {
  if constexpr (kTerms<Factor<T>> == 2) {
    for (std::int64_t i = 0; i < count; i += 2)
      gather_pairs(row_at(i), i + 1 < count ? row_at(i + 1) : nullptr, to + i / 2 * padded, head_dim);
  } else {
    for (std::int64_t i = 0; i < count; ++i) gather_row<T>(row_at(i), Acc<T>(1), to + i * padded, head_dim);
  }
}
/// Two vectors rounded to bfloat16, one behind the other.
struct TwoRounded {
  Vec<std::uint16_t, 2 * kLanes<float>> halves;

  [[gnu::always_inline]] TwoRounded(Vec<float> first, Vec<float> second) {
#if defined(__AVX512BF16__)
    halves = (Vec<std::uint16_t, 2 * kLanes<float>>)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first);
#else
    const auto low = to_bfloat16(first), high = to_bfloat16(second);
    __builtin_memcpy(&halves, &low, sizeof low);
    __builtin_memcpy(reinterpret_cast<std::byte*>(&halves) + sizeof low, &high, sizeof high);
#endif
  }
  /// As pairs of the first and the second.
  [[gnu::always_inline]] void store_pairs(Bf16Pair* to) const {
    store_zipped(to, std::make_index_sequence<2 * std::size_t{kLanes<float>}>{});
  }
  /// As rows of their own.
  [[gnu::always_inline]] void store_rows(bfloat16* first, bfloat16* second) const {
    __builtin_memcpy(static_cast<void*>(first), &halves, sizeof halves / 2);
    __builtin_memcpy(static_cast<void*>(second),
                     reinterpret_cast<const std::byte*>(&halves) + sizeof halves / 2, sizeof halves / 2);
  }

 private:
  template <std::size_t... kLane>
  [[gnu::always_inline]] void store_zipped(Bf16Pair* to, std::index_sequence<kLane...>) const {
    const auto zipped = __builtin_shufflevector(
        halves, halves, (static_cast<int>(kLane) / 2 + (kLane % 2 == 0 ? 0 : kLanes<float>))...);
    __builtin_memcpy(static_cast<void*>(to), &zipped, sizeof zipped);
  }
};

}  // namespace
}  // namespace moh
