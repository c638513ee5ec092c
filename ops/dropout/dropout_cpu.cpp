#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/cpu/elementwise.h"
#include "ops/dropout/dropout_kernels.h"
#include "ops/dropout/philox_cpu.h"

namespace moh {

namespace {

/// Philox counters per block, and elements per block, four per counter: a table of words that stays in L1.
constexpr std::int64_t kCounters = 64;
constexpr std::int64_t kBlock = 4 * kCounters;

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
      constexpr std::int64_t kCacheLine = 64 / sizeof(T);
      for (std::int64_t i = block; i < block + kBlock; i += kCacheLine) prefetch_ahead(x + i);
      for (std::int64_t c = 0; c < kCounters; c += kPhiloxStep)
        philox_words(mask.seed, static_cast<std::uint64_t>(block / 4 + c), mask.stream, words + 4 * c);
      apply_block(x + block, words, mask, y + block, end - block < kBlock ? end - block : kBlock);
    }
  });
}

template struct DropoutKernels<cpu::MOH_ISA, float>;
template struct DropoutKernels<cpu::MOH_ISA, bfloat16>;
template struct DropoutKernels<cpu::MOH_ISA, double>;

}  // namespace moh
