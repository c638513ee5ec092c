// The plain form of the tiles of AMX beside the definition of TDPBF16PS as Intel's Software Developer's
// Manual states it, on the processor's own fused multiply-add of float32.
// tests/ops/linalg/matmul_amx_test.cpp compares the plain form with the instructions.

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <iterator>
#include <random>
#include <vector>

#include "ops/cpu/amx/plain_tiles.h"
#include "tests/support/skip.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

using namespace moh;

#if defined(__x86_64__)

namespace {

/// float32 operations take and return subnormal numbers as zero (DAZ, FTZ) while it lives.
class SubnormalsAreZero {
 public:
  SubnormalsAreZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040U); }
  ~SubnormalsAreZero() { _mm_setcsr(before_); }
  SubnormalsAreZero(const SubnormalsAreZero&) = delete;
  SubnormalsAreZero& operator=(const SubnormalsAreZero&) = delete;

 private:
  unsigned before_;
};

float make_fp32(std::uint16_t x) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
}
[[gnu::noinline, gnu::target("fma")]] float fma32(float a, float b, float c) {
  return _mm_cvtss_f32(_mm_fmadd_ss(_mm_set_ss(a), _mm_set_ss(b), _mm_set_ss(c)));
}
[[gnu::noinline]] float add32(float a, float b) {
  return _mm_cvtss_f32(_mm_add_ss(_mm_set_ss(a), _mm_set_ss(b)));
}

/// Matrices of one multiplication of tiles, rows as long as those of a whole tile.
struct Matrices {
  std::vector<std::uint16_t> a, b;
  std::vector<float> c;
};
constexpr int kPairRow = 2 * kTileSide, kSumRow = kTileSide;

/// TDPBF16PS c, a, b.
void tdpbf16ps(const BlockSize& size, Matrices& x) {
  const SubnormalsAreZero scope;
  for (int m = 0; m < size.rows; ++m) {
    float temp[2 * kTileSide] = {};
    for (int k = 0; k < size.pairs; ++k) {
      for (int n = 0; n < size.columns; ++n) {
        for (int e = 0; e < 2; ++e) {
          temp[2 * n + e] = fma32(make_fp32(x.a[m * kPairRow + 2 * k + e]),
                                  make_fp32(x.b[k * kPairRow + 2 * n + e]), temp[2 * n + e]);
        }
      }
    }
    for (int n = 0; n < size.columns; ++n) {
      float& sum = x.c[m * kSumRow + n];
      sum = add32(sum, add32(temp[2 * n], temp[2 * n + 1]));
    }
  }
}

/// tdpbf16ps() by a tile of PlainTiles.
void multiply_plain(const BlockSize& size, Matrices& x) {
  PlainTiles tiles;
  tiles.configure(size);
  tiles.load<left_tile(0)>(x.a.data(), kTileRowBytes);
  tiles.load<right_tile(0)>(x.b.data(), kTileRowBytes);
  tiles.load<sum_tile(0, 0)>(x.c.data(), kTileRowBytes);
  tiles.multiply<0, 0>();
  tiles.store<sum_tile(0, 0)>(x.c.data(), kTileRowBytes);
}

/// Whether two results are one: the same bits, or both NaN, of which each processor has its own.
bool is_same(float x, float y) {
  return (x != x && y != y) || std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
}

void check_same(const BlockSize& size, const Matrices& inputs) {
  Matrices expected = inputs, found = inputs;
  tdpbf16ps(size, expected);
  multiply_plain(size, found);
  INFO(size.rows << " x " << size.columns << " x " << size.pairs);
  const auto one = std::mismatch(expected.c.begin(), expected.c.end(), found.c.begin(), is_same).first;
  INFO("element " << one - expected.c.begin());
  CHECK(one == expected.c.end());
}

/// Elements as draw_bits() gives them, and sums with more bits of the same magnitudes.
template <class DrawBits>
Matrices drawn(const DrawBits& draw_bits, std::mt19937& random) {
  Matrices x;
  for (int i = 0; i < kTileSide * kPairRow; ++i) {
    x.a.push_back(draw_bits());
    x.b.push_back(draw_bits());
  }
  for (int i = 0; i < kTileSide * kSumRow; ++i) {
    const std::uint32_t low = random() & 0xffffU;
    x.c.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(draw_bits()) << 16 | low));
  }
  return x;
}

constexpr BlockSize kSizes[] = {{16, 16, 16}, {1, 1, 1}, {15, 7, 13}, {16, 1, 2}, {3, 16, 16}};

bool has_fma() {
  return __builtin_cpu_supports("fma") != 0;
}

}  // namespace

TEST_CASE("ops: a tile of AMX in plain C++ has the bits of its definition", "[one_isa]") {
  if (!has_fma()) MOH_SKIP("this processor has no fused multiply-add to compare with");
  std::mt19937 random(1);
  const auto signed_with_exponents = [&](unsigned least, unsigned count) {
    return [&random, least, count] {
      const unsigned exponent = least + random() % count;
      return static_cast<std::uint16_t>((random() & 0x807fU) | exponent << 7);
    };
  };
  for (const BlockSize& size : kSizes) {
    for (int round = 0; round < 20; ++round) {
      check_same(size, drawn(signed_with_exponents(120, 10), random));  // about one
      check_same(size, drawn(signed_with_exponents(56, 12), random));   // products about 2^-126
      check_same(size, drawn(signed_with_exponents(0, 130), random));   // subnormal numbers, too
      check_same(size, drawn(signed_with_exponents(186, 10), random));  // products about 2^128
      check_same(size, drawn(signed_with_exponents(0, 256), random));   // everything
    }
  }
}

TEST_CASE("ops: a tile of AMX in plain C++ has subnormal numbers, infinities and NaN as its definition",
          "[one_isa]") {
  if (!has_fma()) MOH_SKIP("this processor has no fused multiply-add to compare with");
  constexpr std::uint16_t kNumbers[] = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf80,
                                        0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x1f80, 0x2000, 0x5f80};
  std::mt19937 random(2);
  const auto one_of_them = [&] { return kNumbers[random() % std::size(kNumbers)]; };
  for (int round = 0; round < 200; ++round) check_same({7, 9, 1}, drawn(one_of_them, random));

  // 2^-126 less a product of which rounding leaves something, or nothing.
  Matrices x = drawn([] { return std::uint16_t{0}; }, random);
  for (float& sum : x.c) sum = 0;
  x.a[0] = 0x0080;  // 2^-126
  x.b[0] = 0x3f80;
  x.b[kPairRow] = 0x9980;  // -2^-76
  for (const std::uint16_t small :
       {0x1a80, 0x1a40, 0x1a00, 0x1980}) {  // 2^-74, 0.75 and 0.5 of it, and 2^-76
    x.a[2] = small;
    check_same({1, 1, 2}, x);
  }
}

#else

TEST_CASE("ops: a tile of AMX in plain C++ has the bits of its definition", "[one_isa]") {
  MOH_SKIP("the definition is that of processors by Intel");
}

#endif
