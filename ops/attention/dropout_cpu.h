#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include "ops/attention/softmax_cpu.h"
#include "ops/dropout/philox_cpu.h"

namespace moh {
namespace {

/// The dropout mask of a row and a key block: 0, or the scale of the kept weights. In place of KeepAll.
template <class F>
class KeepSome {
 public:
  /// `first` numbers the block's first weight in the mask; a multiple of 4.
  [[gnu::always_inline]] KeepSome(const DropoutMask& mask, std::int64_t first) {
    constexpr std::int64_t kCounters = kKeyBlock / 4, kOfVector = kLanes<std::uint64_t>,
                           kVectors = min_of(kPhiloxVectors, kCounters / kOfVector);
    std::uint32_t words[kKeyBlock];
    for (std::int64_t c = 0; c < kCounters; c += kVectors * kOfVector)
      philox_words<kVectors>(mask.seed, static_cast<std::uint64_t>(first / 4 + c), mask.stream,
                             words + 4 * c);
    const std::uint32_t threshold = mask.threshold;
    const F scale = static_cast<F>(mask.scale);
#pragma omp simd
    for (std::int64_t i = 0; i < kKeyBlock; ++i) factors_[i] = words[i] < threshold ? F(0) : scale;
  }

  [[gnu::always_inline]] Vec<F> operator()(Vec<F> weights, int vec) const {
    return weights * load(factors_ + vec * kLanes<F>);
  }

 private:
  F factors_[kKeyBlock];
};

}  // namespace
}  // namespace moh
