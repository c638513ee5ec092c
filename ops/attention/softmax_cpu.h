#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/attention/list_walk.h"
#include "ops/cpu/simd.h"

namespace moh {
namespace {

/// Keys per step of the online softmax.
constexpr std::int64_t kKeyBlock = 64;
template <class F>
constexpr int kKeyVecs = static_cast<int>(kKeyBlock) / kLanes<F>;
/// Folded into the scale of the scores, so that exponentials are powers of 2.
constexpr double kLog2E = 1.4426950408889634;

/// Vectors that hold the first `keys` of a key block; none below 0.
template <class F>
int vecs_of(std::int64_t keys) {
  return static_cast<int>((clamp(keys, 0, kKeyBlock) + kLanes<F> - 1) / kLanes<F>);
}

/// Vector number `vec` of a key block, with the values of keys from number `seen` on replaced.
template <class F>
[[gnu::always_inline]] inline Vec<F> masked(Vec<F> values, std::int64_t seen, int vec, F replacement) {
  const auto number = lane_numbers<F>() + static_cast<BitsOf<F>>(vec * kLanes<F>);
  return number < static_cast<BitsOf<F>>(seen) ? values : splat<F>(replacement);
}

[[maybe_unused]] inline float log2_of(float x) {
  return __builtin_log2f(x);
}
[[maybe_unused]] inline double log2_of(double x) {
  return __builtin_log2(x);
}

/// One row's step of the online softmax over a key block, of which the row sees the first `seen` keys in
/// `vecs` vectors: scores become exponentials relative to the new maximum; sum and out are rescaled to it.
template <class F>
[[gnu::always_inline]] inline void softmax_step(F* scores, int vecs, std::int64_t seen, F& top, F* sum,
                                                F* out, std::int64_t padded) {
  constexpr F kInfinity = std::numeric_limits<F>::infinity();
  if (seen < vecs * kLanes<F>) {
    for (int j = 0; j < vecs; ++j) {
      store(scores + j * kLanes<F>, masked<F>(load(scores + j * kLanes<F>), seen, j, -kInfinity));
    }
  }
  Vec<F> largest = splat<F>(-kInfinity);
#pragma GCC unroll 4
  for (int j = 0; j < vecs; ++j) largest = larger<F>(load(scores + j * kLanes<F>), largest);
  const F block_top = max_lane<F>(largest);
  if (block_top > top) {
    const Vec<F> shrink = exp2_lanes<F>(splat<F>(top - block_top));
    top = block_top;
    store(sum, load(sum) * shrink);
    for (std::int64_t c = 0; c < padded; c += kLanes<F>) store(out + c, load(out + c) * shrink);
  }
  const Vec<F> shift = splat<F>(top);
  Vec<F> total = load(sum);
#pragma GCC unroll 4
  for (int j = 0; j < vecs; ++j) {
    const Vec<F> e = exp2_lanes<F>(load(scores + j * kLanes<F>) - shift);
    store(scores + j * kLanes<F>, e);
    total += e;
  }
  store(sum, total);
}

}  // namespace
}  // namespace moh
