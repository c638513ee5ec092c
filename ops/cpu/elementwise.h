#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <cstdint>
#include <type_traits>

#include "core/parallel.h"
#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Fetches what a loop over consecutive elements reads next but a few cache lines. Processors do so on their
/// own only within a page, and out-of-order execution does not reach far behind as much arithmetic as an
/// exponential's.
[[gnu::always_inline]] inline void prefetch_ahead(const void* at) {
  constexpr std::int64_t kBytes = 2048;
  __builtin_prefetch(static_cast<const char*>(at) + kBytes);
}

/// A vector's worth of elements of arrays, from the same index in each. Loads upcast, stores round.
struct WholeVector {
  std::int64_t first;

  template <class T>
  [[gnu::always_inline]] inline Vec<Acc<T>> load(const T* from) const {
    prefetch_ahead(from + first);
    return load_as<T>(from + first);
  }
  /// load() without fetching ahead, of arrays that are in the caches: a row's weights, sums, or the row
  /// itself once more.
  template <class T>
  [[gnu::always_inline]] inline Vec<Acc<T>> load_cached(const T* from) const {
    return load_as<T>(from + first);
  }
  template <class T>
  [[gnu::always_inline]] inline void store(T* to, Vec<Acc<T>> v) const {
    store_as<T>(to + first, v);
  }
  /// v, with zeros in lanes that belong to no element.
  template <class V>
  [[gnu::always_inline]] inline V masked(V v) const {
    return v;
  }
};

/// WholeVector for `count` elements, fewer than a vector's. Other lanes are loaded as zeros.
struct PartOfVector {
  std::int64_t first, count;

  template <class T>
  [[gnu::always_inline]] inline Vec<Acc<T>> load(const T* from) const {
    return load_first<T>(from + first, count);
  }
  template <class T>
  [[gnu::always_inline]] inline Vec<Acc<T>> load_cached(const T* from) const {
    return load(from);
  }
  template <class T>
  [[gnu::always_inline]] inline void store(T* to, Vec<Acc<T>> v) const {
    store_first<T>(to + first, v, count);
  }
  template <class V>
  [[gnu::always_inline]] inline V masked(V v) const {
    using F = std::remove_cvref_t<decltype(v[0])>;
    return lane_numbers<F>() < static_cast<BitsOf<F>>(count) ? v : V{};
  }
};

/// Calls body(at) for all elements of [begin, end), a vector of A after the other, with at a WholeVector or a
/// PartOfVector: at.load(array), at.store(array, v).
template <class A, class Body>
[[gnu::always_inline]] inline void for_vectors_in(std::int64_t begin, std::int64_t end, const Body& body) {
  std::int64_t i = begin;
  for (; i + kLanes<A> <= end; i += kLanes<A>) body(WholeVector{i});
  if (i < end) body(PartOfVector{i, end - i});
}

/// for_vectors_in() for [0, count), in parallel: calls must not depend on each other.
template <class A, class Body>
[[maybe_unused]] [[gnu::always_inline]] inline void for_each_vector(std::int64_t count, const Body& body) {
  constexpr std::int64_t kGrain = 1 << 14;
  parallel_for(count, kGrain, [&body](std::int64_t begin, std::int64_t end) {
    const Body local = body;  // a local copy, so that stores in the loop cannot alias the captures
    for_vectors_in<A>(begin, end, local);
  });
}

}  // namespace
}  // namespace moh
