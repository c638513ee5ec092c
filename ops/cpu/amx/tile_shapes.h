#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <cstdint>

namespace moh {
namespace {

/// A tile of AMX has up to 16 rows of 64 bytes: of 16 float sums, or of 16 pairs of bfloat16.
constexpr std::int64_t kTileSide = 16, kTileRowBytes = 64;

// A block of sums has two tiles each way, so that each tile of an operand that is loaded is multiplied twice;
// with those of the operands they are the eight tiles that there are.
constexpr int sum_tile(int down, int across) {
  return 2 * down + across;
}
constexpr int left_tile(int down) {
  return 4 + down;
}
constexpr int right_tile(int across) {
  return 6 + across;
}
constexpr int kTiles = 8;

/// The sizes of a block: of its sums, and of one step along the summed axis, in pairs, of at most kTileSide.
struct BlockSize {
  std::int64_t rows, columns, pairs;

  bool operator==(const BlockSize&) const = default;
};

/// Rows and bytes of a row of each tile, in the layout that LDTILECFG reads.
struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};

  /// The shapes for a block. A tile that it does not have is without rows and bytes.
  explicit TileShapes(const BlockSize& size) {
    for (int i = 0; i < 2; ++i) {
      const std::int64_t rows_left = in_tile(size.rows, i), columns_right = in_tile(size.columns, i);
      set(left_tile(i), rows_left, size.pairs);
      set(right_tile(i), size.pairs, columns_right);
      for (int j = 0; j < 2; ++j) set(sum_tile(i, j), rows_left, in_tile(size.columns, j));
    }
  }

 private:
  static std::int64_t in_tile(std::int64_t count, int tile) {
    const std::int64_t rest = count - tile * kTileSide;
    return rest < 0 ? 0 : rest < kTileSide ? rest : kTileSide;
  }
  void set(int tile, std::int64_t tile_rows, std::int64_t columns) {
    if (tile_rows == 0 || columns == 0) return;
    rows[tile] = static_cast<std::uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<std::uint16_t>(columns * 4);
  }
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace
}  // namespace moh
