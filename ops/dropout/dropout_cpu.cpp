#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/dropout/dropout_kernels.h"

namespace moh {

namespace {

/// Counters per block: their four words fill a cache-sized table of a vectorised loop.
constexpr std::int64_t kCounters = 64;
constexpr std::int64_t kBlock = 4 * kCounters;

/// words[k][c] = word k of philox(seed, first + c, stream). The rounds are those of core/random.cpp, written
/// for many counters at a time.
void philox_block(DropoutMask mask, std::uint64_t first, std::uint32_t (&words)[4][kCounters]) {
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
    words[0][c] = x0;
    words[1][c] = x1;
    words[2][c] = x2;
    words[3][c] = x3;
  }
}

}  // namespace

template <class Backend, class T>
void DropoutKernels<Backend, T>::apply(const T* x, T* y, std::int64_t count, DropoutMask mask) {
  using A = Acc<T>;
  constexpr std::int64_t kGrain = 64 * kBlock;  // chunks begin at whole blocks
  const A scale = static_cast<A>(mask.scale);
  parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
    std::uint32_t words[4][kCounters];
    for (std::int64_t block = begin; block < end; block += kBlock) {
      philox_block(mask, static_cast<std::uint64_t>(block) / 4, words);
      const std::int64_t size = end - block < kBlock ? end - block : kBlock;
#pragma omp simd
      for (std::int64_t i = 0; i < size; ++i) {
        const bool kept = words[i % 4][i / 4] >= mask.threshold;
        y[block + i] = T(kept ? A(x[block + i]) * scale : A(0));
      }
    }
  });
}

template struct DropoutKernels<cpu::MOH_ISA, float>;
template struct DropoutKernels<cpu::MOH_ISA, bfloat16>;
template struct DropoutKernels<cpu::MOH_ISA, double>;

}  // namespace moh
