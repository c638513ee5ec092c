#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <bit>
#include <cstddef>
#include <cstdint>

#include "ops/cpu/amx/tile_shapes.h"

namespace moh {
namespace {

/// The tiles of AMX in plain C++, to the bit (but which of several NaN an operation returns). TDPBF16PS is
/// that of Intel's Software Developer's Manual, volume 2 (section Operation of the instruction): each sum of
/// a tile gets the products of the first elements of all pairs, summed in order from zero, plus those of the
/// second ones, summed likewise. All are fused multiply-adds of float32 that round to nearest even, with
/// subnormal numbers taken and returned as zero. Intel's guide to intrinsics has another, shorter form, in
/// which each product is added to the sum itself.
class PlainTiles {
 public:
  void configure(const BlockSize& size) {
    shapes_ = TileShapes(size);
    for (Tile& tile : tiles_) tile = {};
  }
  template <int kTile>
  void zero() {
    tiles_[kTile] = {};
  }
  template <int kTile>
  void load(const void* from, std::ptrdiff_t row_bytes) {
    tiles_[kTile] = {};
    for (int i = 0; i < shapes_.rows[kTile]; ++i) {
      // NOLINTNEXTLINE: scratch is null only where its bytes are counted
      __builtin_memcpy(tiles_[kTile].rows[i], static_cast<const char*>(from) + i * row_bytes,
                       shapes_.row_bytes[kTile]);
    }
  }
  template <int kTile>
  void store(void* to, std::ptrdiff_t row_bytes) const {
    for (int i = 0; i < shapes_.rows[kTile]; ++i) {
      __builtin_memcpy(static_cast<char*>(to) + i * row_bytes, tiles_[kTile].rows[i],
                       shapes_.row_bytes[kTile]);
    }
  }
  template <int kDown, int kAcross>
  void multiply() {
    constexpr int kSum = sum_tile(kDown, kAcross), kRight = right_tile(kAcross);
    add_products(tiles_[left_tile(kDown)], tiles_[kRight], shapes_.rows[kSum], shapes_.rows[kRight],
                 tiles_[kSum]);
  }

 private:
  /// Float sums, or pairs of bfloat16, the first in the lower half.
  struct Tile {
    std::uint32_t rows[kTileSide][kTileSide];
  };

  static double normal_or_zero(std::uint32_t bits) {
    return std::bit_cast<float>((bits & 0x7f800000U) == 0 ? bits & 0x80000000U : bits);
  }
  static double first_of(std::uint32_t pair) { return normal_or_zero(pair << 16); }
  static double second_of(std::uint32_t pair) { return normal_or_zero(pair & 0xffff0000U); }
  /// A sum of a float and a product of two bfloat16, which float64 has exactly, as float32 rounds it: 53 bits
  /// are enough that rounding twice changes nothing. What is below the smallest normal number once it is
  /// rounded, with exponents without bounds, becomes zero.
  static float rounded(double sum) {
    return __builtin_fabs(sum) < 0x1p-126 - 0x1p-151 ? __builtin_copysignf(0.0F, static_cast<float>(sum))
                                                     : static_cast<float>(sum);
  }

  static void add_products(const Tile& left, const Tile& right, int rows, int pairs, Tile& sums) {
    for (int i = 0; i < rows; ++i) {
      float first[kTileSide] = {}, second[kTileSide] = {};
      for (int k = 0; k < pairs; ++k) {
        const double a_first = first_of(left.rows[i][k]), a_second = second_of(left.rows[i][k]);
        for (int j = 0; j < kTileSide; ++j) {
          first[j] = rounded(a_first * first_of(right.rows[k][j]) + static_cast<double>(first[j]));
          second[j] = rounded(a_second * second_of(right.rows[k][j]) + static_cast<double>(second[j]));
        }
      }
      for (int j = 0; j < kTileSide; ++j) {
        const float both = rounded(static_cast<double>(first[j]) + static_cast<double>(second[j]));
        sums.rows[i][j] = std::bit_cast<std::uint32_t>(
            rounded(normal_or_zero(sums.rows[i][j]) + static_cast<double>(both)));
      }
    }
  }

  TileShapes shapes_{{}};
  Tile tiles_[kTiles] = {};
};

}  // namespace
}  // namespace moh
