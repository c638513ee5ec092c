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

/// The keys of `keys` that are in the key block from `first` on, numbered within it.
[[gnu::always_inline]] inline Range in_block(const Range& keys, std::int64_t first) {
  return {clamp(keys.begin - first, 0, kKeyBlock), clamp(keys.end - first, 0, kKeyBlock)};
}

/// The numbers of the vectors that hold some keys of a block.
struct VecRange {
  int begin, end;
};
template <class F>
[[gnu::always_inline]] inline VecRange vecs_of(const Range& keys) {
  if (keys.end <= keys.begin) return {0, 0};
  return {static_cast<int>(keys.begin / kLanes<F>), static_cast<int>((keys.end + kLanes<F> - 1) / kLanes<F>)};
}

/// Vector number `vec` of a key block, with the values of keys outside of `seen` replaced.
template <class F>
[[gnu::always_inline]] inline Vec<F> masked(Vec<F> values, const Range& seen, int vec, F replacement) {
  const auto number = lane_numbers<F>() + static_cast<BitsOf<F>>(vec * kLanes<F>);
  values = number < static_cast<BitsOf<F>>(seen.end) ? values : splat<F>(replacement);
  return number < static_cast<BitsOf<F>>(seen.begin) ? splat<F>(replacement) : values;
}

[[maybe_unused]] inline float log2_of(float x) {
  return __builtin_log2f(x);
}
[[maybe_unused]] inline double log2_of(double x) {
  return __builtin_log2(x);
}

/// Multiplies a vector of weights of a key block with the dropout mask: one that keeps all as they are.
struct KeepAll {
  KeepAll(const DropoutMask&, std::int64_t) {}
  template <class V>
  [[gnu::always_inline]] V operator()(V weights, int /*vec*/) const {
    return weights;
  }
};

/// One row's step of the online softmax over a key block, of which the row sees `seen`, at least one key, in
/// `vecs`: weights become exponentials of the scores relative to the new maximum, zero for the other keys of
/// `vecs`; sum and out are rescaled to the maximum. Weights may be the scores, or be rounded to another type;
/// scores are then multiplied by `factor` first, which must be positive. `keep` drops weights of which the
/// sum has been taken.
template <class F, class W, class Keep = KeepAll>
[[gnu::always_inline]] inline void softmax_step(F* scores, F factor, VecRange vecs, const Range& seen, F& top,
                                                F* sum, F* out, std::int64_t padded, W* weights,
                                                const Keep& keep = Keep({}, 0)) {
  constexpr bool kScales = !std::is_same_v<F, W>;
  constexpr F kInfinity = std::numeric_limits<F>::infinity();
  if (seen.begin > vecs.begin * kLanes<F> || seen.end < vecs.end * kLanes<F>) {
    for (int j = vecs.begin; j < vecs.end; ++j) {
      store(scores + j * kLanes<F>, masked<F>(load(scores + j * kLanes<F>), seen, j, -kInfinity));
    }
  }
  Vec<F> largest = splat<F>(-kInfinity);
#pragma GCC unroll 4
  for (int j = vecs.begin; j < vecs.end; ++j) largest = larger<F>(load(scores + j * kLanes<F>), largest);
  const F block_top = kScales ? max_lane<F>(largest) * factor : max_lane<F>(largest);
  if (block_top > top) {
    const Vec<F> shrink = exp2_lanes<F>(splat<F>(top - block_top));
    top = block_top;
    store(sum, load(sum) * shrink);
    for (std::int64_t c = 0; c < padded; c += kLanes<F>) store(out + c, load(out + c) * shrink);
  }
  const Vec<F> shift = splat<F>(top);
  Vec<F> total = load(sum);
#pragma GCC unroll 4
  for (int j = vecs.begin; j < vecs.end; ++j) {
    const Vec<F> score = load(scores + j * kLanes<F>);
    const Vec<F> e = exp2_lanes<F>(kScales ? score * factor - shift : score - shift);
    store_as<W>(weights + j * kLanes<F>, keep(e, j));
    total += e;
  }
  store(sum, total);
}

}  // namespace
}  // namespace moh
