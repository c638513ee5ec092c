#include "core/cpu_isa.h"
#include "core/dtype.h"
#include "ops/cpu/amx/isa_tiles.h"
#include "ops/cpu/fma_loop_kernels.h"

namespace moh {

namespace {

/// Elements of the tiles of a block: of its sums, and of an operand's half.
constexpr std::int64_t kSums = 4 * kTileSide * kTileSide, kFactors = 2 * kTileSide * kTileSide;

}  // namespace

template <class Backend, class T>
float FmaLoopKernels<Backend, T>::run(std::int64_t rounds, float factor, float term) {
  bfloat16 factors[kFactors], terms[kFactors];
  for (std::int64_t i = 0; i < kFactors; ++i) {
    factors[i] = factor;
    terms[i] = term;
  }
  Tiles tiles;
  tiles.configure({2 * kTileSide, 2 * kTileSide, kTileSide});
  tiles.template load<left_tile(0)>(factors, kTileRowBytes);
  tiles.template load<left_tile(1)>(factors, kTileRowBytes);
  tiles.template load<right_tile(0)>(terms, kTileRowBytes);
  tiles.template load<right_tile(1)>(terms, kTileRowBytes);
  for (std::int64_t round = 0; round < rounds; ++round) {
    tiles.template multiply<0, 0>();
    tiles.template multiply<0, 1>();
    tiles.template multiply<1, 0>();
    tiles.template multiply<1, 1>();
  }
  float sums[kSums];
  tiles.template store<sum_tile(0, 0)>(sums, kTileRowBytes);
  tiles.template store<sum_tile(0, 1)>(sums + kSums / 4, kTileRowBytes);
  tiles.template store<sum_tile(1, 0)>(sums + kSums / 2, kTileRowBytes);
  tiles.template store<sum_tile(1, 1)>(sums + kSums / 4 * 3, kTileRowBytes);
  float total = 0;
  for (const float sum : sums) total += sum;
  return total;
}

template <class Backend, class T>
std::int64_t FmaLoopKernels<Backend, T>::flops_per_round() {
  return 2 * kSums * 2 * kTileSide;
}

template struct FmaLoopKernels<cpu::MOH_ISA, bfloat16>;

}  // namespace moh
