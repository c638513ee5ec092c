#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/dropout/dropout_kernels.h"

namespace moh {

namespace {

/// Philox counters per block, and elements per block, four per counter: a table of words that stays in L1.
constexpr std::int64_t kCounters = 64;
constexpr std::int64_t kBlock = 4 * kCounters;

/// words[4 c + k] = word k of philox(seed, first + c, stream). The rounds are those of core/philox.h,
/// vectorised over counters.
void philox_block(DropoutMask mask, std::uint64_t first, std::uint32_t (&words)[kBlock]) {
#pragma omp simd
  for (std::int64_t c = 0; c < kCounters; ++c) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(c);
    auto key0 = static_cast<std::uint32_t>(mask.seed), key1 = static_cast<std::uint32_t>(mask.seed >> 32);
    auto x0 = static_cast<std::uint32_t>(counter), x1 = static_cast<std::uint32_t>(counter >> 32);
    auto x2 = static_cast<std::uint32_t>(mask.stream), x3 = static_cast<std::uint32_t>(mask.stream >> 32);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t product0 = static_cast<std::uint64_t>(0xD2511F53U) * x0;
      const std::uint64_t product1 = static_cast<std::uint64_t>(0xCD9E8D57U) * x2;
      x0 = static_cast<std::uint32_t>(product1 >> 32) ^ x1 ^ key0;
      x1 = static_cast<std::uint32_t>(product1);
      x2 = static_cast<std::uint32_t>(product0 >> 32) ^ x3 ^ key1;
      x3 = static_cast<std::uint32_t>(product0);
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    words[4 * c] = x0;
    words[4 * c + 1] = x1;
    words[4 * c + 2] = x2;
    words[4 * c + 3] = x3;
  }
}

template <class T>
[[gnu::always_inline]] inline void apply_block(const T* x, const std::uint32_t* words, DropoutMask mask, T* y,
                                               std::int64_t count) {
  using A = Acc<T>;
  const A scale = static_cast<A>(mask.scale);
#pragma omp simd
  for (std::int64_t i = 0; i < count; ++i) y[i] = A(x[i]) * (words[i] < mask.threshold ? A(0) : scale);
}

}  // namespace

template <class Backend, class T>
void DropoutKernels<Backend, T>::apply(const T* x, T* y, std::int64_t count, DropoutMask mask) {
  constexpr std::int64_t kGrain = 64 * kBlock;  // chunks begin at whole blocks
  parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[kBlock];
    for (std::int64_t block = begin; block < end; block += kBlock) {
      philox_block(mask, static_cast<std::uint64_t>(block) / 4, words);
      apply_block(x + block, words, mask, y + block, end - block < kBlock ? end - block : kBlock);
    }
  });
}

template struct DropoutKernels<cpu::MOH_ISA, float>;
template struct DropoutKernels<cpu::MOH_ISA, bfloat16>;
template struct DropoutKernels<cpu::MOH_ISA, double>;

}  // namespace moh
