#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.
//
// Rows of head_dim elements in scratch, padded with zeros to whole vectors: their normalisation, and sums
// over the neighbours of a token in an image.

#include <cmath>

#include "ops/cpu/pack.h"

namespace moh {
namespace {

/// Norms below it count as it.
constexpr double kLeastNorm = 1e-12;

/// The inner products of rows i of a and b in lanes i, for i < count, at most a vector of them; other lanes
/// are of no meaning.
template <class F>
[[gnu::always_inline]] inline Vec<F> dot_each(const F* a, const F* b, std::int64_t count,
                                              std::int64_t padded) {
  constexpr int kN = kLanes<F>;
  Vec<F> sums[kN];
#pragma GCC unroll 16
  for (int l = 0; l < kN; ++l) {
    const std::int64_t row = (l < count ? l : count - 1) * padded;
    sums[l] = load(a + row) * load(b + row);
    for (std::int64_t c = kN; c < padded; c += kN) sums[l] += load(a + row + c) * load(b + row + c);
  }
  return sum_each<F, kN>(sums);
}

/// row = 0, whole vectors.
template <class F>
[[gnu::always_inline]] inline void clear_row(F* row, std::int64_t padded) {
  for (std::int64_t c = 0; c < padded; c += kLanes<F>) store(row + c, Vec<F>{});
}

/// row *= factor
template <class F>
[[gnu::always_inline]] inline void scale_row(F* row, F factor, std::int64_t padded) {
  for (std::int64_t c = 0; c < padded; c += kLanes<F>) store(row + c, load(row + c) * factor);
}

/// Fetches a row that is read soon: those of a head are far apart, and hardware does not foresee them.
template <class T>
[[gnu::always_inline]] inline void prefetch_row(const T* row, std::int64_t head_dim) {
  __builtin_prefetch(row);
  __builtin_prefetch(row + head_dim - 1);
}
constexpr std::int64_t kRowsAhead = 12;

/// to = rows of head_dim elements, `stride` apart in a tensor.
template <class T, class F = Acc<T>>
[[gnu::always_inline]] inline void pack_rows(const T* from, std::int64_t stride, std::int64_t count,
                                             std::int64_t head_dim, F* to, std::int64_t padded) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count) prefetch_row(from + (i + kRowsAhead) * stride, head_dim);
    gather_row<T>(from + i * stride, F(1), to + i * padded, head_dim);
  }
}

/// Divides at most a vector of rows by their norms, and writes what they were multiplied by.
template <class F>
[[gnu::always_inline]] inline void normalise_some(F* rows, std::int64_t count, std::int64_t padded,
                                                  F* inverse) {
  constexpr int kN = kLanes<F>;
  F factors[kN];
  store(factors, dot_each<F>(rows, rows, count, padded));
#pragma omp simd
  for (int l = 0; l < kN; ++l) {
    const F norm = std::sqrt(factors[l]);
    factors[l] = F(1) / (norm > F(kLeastNorm) ? norm : F(kLeastNorm));
  }
  for (std::int64_t l = 0; l < count; ++l) {
    inverse[l] = factors[l];
    scale_row(rows + l * padded, factors[l], padded);
  }
}
/// Divides rows by their norms, and writes what they were multiplied by.
template <class F>
[[gnu::always_inline]] inline void normalise_rows(F* rows, std::int64_t count, std::int64_t padded,
                                                  F* inverse) {
  constexpr int kN = kLanes<F>;
  std::int64_t i = 0;
  for (; i + kN <= count; i += kN) normalise_some(rows + i * padded, kN, padded, inverse + i);
  if (i < count) normalise_some(rows + i * padded, count - i, padded, inverse + i);
}

/// Gradients with respect to rows that normalise_rows has made `unit`, in place of those of the unit rows:
/// g becomes (g - u <u, g>) / norm; without the projection where the norm counts as kLeastNorm.
template <class F>
[[gnu::always_inline]] inline void unit_gradients(F* gradients, const F* unit, const F* inverse,
                                                  std::int64_t count, std::int64_t padded) {
  constexpr int kN = kLanes<F>;
  for (std::int64_t i = 0; i < count; i += kN) {
    const std::int64_t here = count - i < kN ? count - i : kN;
    F along[kN];
    store(along, dot_each<F>(gradients + i * padded, unit + i * padded, here, padded));
    for (std::int64_t l = 0; l < here; ++l) {
      const F r = inverse[i + l], part = r < F(1 / kLeastNorm) ? r * along[l] : F(0);
      F* g = gradients + (i + l) * padded;
      const F* u = unit + (i + l) * padded;
      for (std::int64_t c = 0; c < padded; c += kN) store(g + c, load(g + c) * r - load(u + c) * part);
    }
  }
}

/// to = factor times the gradients with respect to rows that normalise_rows has made `unit`, in a tensor;
/// see unit_gradients.
template <class T, class F = Acc<T>>
[[gnu::always_inline]] inline void store_unit_gradients(const F* gradients, const F* unit, const F* inverse,
                                                        std::int64_t count, std::int64_t padded, F factor,
                                                        T* to, std::int64_t stride, std::int64_t head_dim) {
  constexpr int kN = kLanes<F>;
  const auto some = [&](std::int64_t i, std::int64_t here) __attribute__((always_inline)) {
    F along[kN];
    store(along, dot_each<F>(gradients + i * padded, unit + i * padded, here, padded));
    for (std::int64_t l = 0; l < here; ++l) {
      const F r = inverse[i + l], part = r < F(1 / kLeastNorm) ? r * along[l] * factor : F(0);
      const F *g = gradients + (i + l) * padded, *u = unit + (i + l) * padded;
      T* row = to + (i + l) * stride;
      std::int64_t c = 0;
      const auto at = [&] { return load(g + c) * (r * factor) - load(u + c) * part; };
      for (; c + kN <= head_dim; c += kN) store_as<T>(row + c, at());
      if (c < head_dim) store_first<T>(row + c, at(), head_dim - c);
    }
  };
  std::int64_t i = 0;
  for (; i + kN <= count; i += kN) some(i, kN);
  if (i < count) some(i, count - i);
}

/// The neighbours of a token: their rows are `offsets` rows from its own. kCount: their number, or 0 if it is
/// known at run time only.
template <int kCount>
struct Neighbours {
  const std::int32_t* offsets;
  std::int64_t any_count, padded;

  std::int64_t count() const { return kCount > 0 ? kCount : any_count; }
  std::int64_t at(std::int64_t j) const { return offsets[j] * padded; }
};

/// Calls body(j) for each neighbour.
template <int kCount, class Body>
[[gnu::always_inline]] inline void each_neighbour(const Neighbours<kCount>& near, const Body& body) {
  if constexpr (kCount > 0) {
#pragma GCC unroll 16
    for (int j = 0; j < kCount; ++j) body(j);
  } else {
    for (std::int64_t j = 0; j < near.any_count; ++j) body(j);
  }
}

/// to[j] = <row, the row of neighbour j>; `around` is the token's own row. Writes no more
/// than whole vectors.
template <class F, int kCount, int kHere>
[[gnu::always_inline]] inline void dots_of(const F* row, const F* around, const Neighbours<kCount>& near,
                                           std::int64_t first, F* to) {
  Vec<F> sums[kHere] = {};
  for (std::int64_t c = 0; c < near.padded; c += kLanes<F>) {
    const Vec<F> own = load(row + c);
#pragma GCC unroll 16
    for (int l = 0; l < kHere; ++l) sums[l] += own * load(around + near.at(first + l) + c);
  }
  store(to + first, sum_each<F, kHere>(sums));
}
template <class F, int kCount>
[[gnu::always_inline]] inline void neighbour_dots(const F* row, const F* around,
                                                  const Neighbours<kCount>& near, F* to) {
  constexpr int kN = kLanes<F>;
  const std::int64_t whole = near.count() / kN * kN;
  for (std::int64_t j = 0; j < whole; j += kN) dots_of<F, kCount, kN>(row, around, near, j, to);
  if constexpr (kCount > 0) {
    if constexpr (kCount % kN != 0) dots_of<F, kCount, kCount % kN>(row, around, near, whole, to);
  } else {
    for (std::int64_t j = whole; j < near.count(); ++j) {
      Vec<F> sum{};
      for (std::int64_t c = 0; c < near.padded; c += kN) sum += load(row + c) * load(around + near.at(j) + c);
      to[j] = sum_lanes<F>(sum);
    }
  }
}

/// row += sum of weights[j] times the row of neighbour j.
template <class F, int kCount>
[[gnu::always_inline]] inline void add_neighbours(const F* weights, const F* around,
                                                  const Neighbours<kCount>& near, F* row) {
  for (std::int64_t c = 0; c < near.padded; c += kLanes<F>) {
    Vec<F> sum = load(row + c);
    each_neighbour(near, [&](std::int64_t j) { sum += weights[j] * load(around + near.at(j) + c); });
    store(row + c, sum);
  }
}

/// The row of neighbour j += weights[j] row.
template <class F, int kCount>
[[gnu::always_inline]] inline void add_to_neighbours(const F* weights, const F* row,
                                                     const Neighbours<kCount>& near, F* around) {
  for (std::int64_t c = 0; c < near.padded; c += kLanes<F>) {
    const Vec<F> own = load(row + c);
    each_neighbour(near, [&](std::int64_t j) {
      F* to = around + near.at(j) + c;
      store(to, load(to) + weights[j] * own);
    });
  }
}

}  // namespace
}  // namespace moh
