#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <immintrin.h>

#include <cstddef>

#include "ops/cpu/amx/tile_shapes.h"

namespace moh {
namespace {

/// The tiles of this processor, by the instructions of AMX. GCC's macros do not tell it which memory they
/// read: hence the empty statements that may read all of it.
class AmxTiles {
 public:
  AmxTiles() = default;
  /// Tiles that are in use would be saved at each switch of threads.
  ~AmxTiles() { _tile_release(); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  /// Gives tiles the shapes of a block, and zeros.
  [[gnu::always_inline]] void configure(const BlockSize& size) {
    const TileShapes shapes(size);
    __asm__ volatile("" : : "r"(&shapes) : "memory");
    _tile_loadconfig(&shapes);
  }

// The instructions' tiles are literals.
#define MOH_IN_TILE(Instruction) \
  if constexpr (kTile == 0) {    \
    Instruction(0);              \
  }                              \
  if constexpr (kTile == 1) {    \
    Instruction(1);              \
  }                              \
  if constexpr (kTile == 2) {    \
    Instruction(2);              \
  }                              \
  if constexpr (kTile == 3) {    \
    Instruction(3);              \
  }                              \
  if constexpr (kTile == 4) {    \
    Instruction(4);              \
  }                              \
  if constexpr (kTile == 5) {    \
    Instruction(5);              \
  }                              \
  if constexpr (kTile == 6) {    \
    Instruction(6);              \
  }                              \
  if constexpr (kTile == 7) {    \
    Instruction(7);              \
  }
#define MOH_ZERO(tile) _tile_zero(tile)
#define MOH_LOAD(tile) _tile_loadd(tile, from, row_bytes)
#define MOH_STORE(tile) _tile_stored(tile, to, row_bytes)
  template <int kTile>
  [[gnu::always_inline]] void zero() {
    MOH_IN_TILE(MOH_ZERO)
  }
  /// Rows that are `row_bytes` apart.
  template <int kTile>
  [[gnu::always_inline]] void load(const void* from, std::ptrdiff_t row_bytes) {
    __asm__ volatile("" : : : "memory");
    MOH_IN_TILE(MOH_LOAD)
  }
  template <int kTile>
  [[gnu::always_inline]] void store(void* to, std::ptrdiff_t row_bytes) {
    MOH_IN_TILE(MOH_STORE)
  }
#undef MOH_ZERO
#undef MOH_LOAD
#undef MOH_STORE
#undef MOH_IN_TILE

  /// Adds the products of the left and the right tiles to the sums.
  template <int kDown, int kAcross>
  [[gnu::always_inline]] void multiply() {
    static_assert(sum_tile(1, 0) == 2 && left_tile(1) == 5 && right_tile(1) == 7);
    if constexpr (kDown == 0 && kAcross == 0) _tile_dpbf16ps(0, 4, 6);
    if constexpr (kDown == 0 && kAcross == 1) _tile_dpbf16ps(1, 4, 7);
    if constexpr (kDown == 1 && kAcross == 0) _tile_dpbf16ps(2, 5, 6);
    if constexpr (kDown == 1 && kAcross == 1) _tile_dpbf16ps(3, 5, 7);
  }
};

}  // namespace
}  // namespace moh
