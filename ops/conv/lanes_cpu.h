#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Vectors of channels: all of `kVecs`, or the first `count` lanes of one.
template <class T, int kVecs>
struct Lanes {
  using V = Vec<Acc<T>>;
  static constexpr int kN = kLanes<Acc<T>>;
  std::int64_t count;  // kN * kVecs, or fewer than kN

  template <class S>
  [[gnu::always_inline]] V get(const S* from, int v) const {
    if (kVecs == 1 && count < kN) return load_first<S>(from, count);
    return load_as<S>(from + v * kN);
  }
  template <class S>
  [[gnu::always_inline]] void put(S* to, int v, V value) const {
    if (kVecs == 1 && count < kN) return store_first<S>(to, value, count);
    store_as<S>(to + v * kN, value);
  }
};

/// Calls body(c, lanes) for all channels: many vectors at a time, then one, then part of one.
template <class T, int kVecs, class Body>
[[gnu::always_inline]] inline void each_lanes(std::int64_t channels, const Body& body) {
  constexpr std::int64_t kN = kLanes<Acc<T>>;
  std::int64_t c = 0;
  for (; c + kVecs * kN <= channels; c += kVecs * kN) body(c, Lanes<T, kVecs>{kVecs * kN});
  for (; c < channels; c += kN) body(c, Lanes<T, 1>{channels - c < kN ? channels - c : kN});
}

}  // namespace
}  // namespace moh
