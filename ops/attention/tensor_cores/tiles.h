#pragma once

#include <cstdint>

#include "ops/attention/attention_kernels.h"
#include "ops/cuda/scratch.h"

namespace moh::tensor_cores {

/// Up to `rows` rows of one list, and how many keys the last of them sees: the work of one block.
struct Tile {
  std::int32_t list, first, rows, keys;
};

/// The tiles of all lists, longest first; lists whose keys and values fit in the second-level cache together
/// stay together. Only the device knows how many there are: launch `most` blocks, and let those past *count
/// end at once. The order of tiles of the same length may differ between runs, so no result may depend on
/// it.
class Tiles {
 public:
  /// `num_rows` is at least the number of rows of all lists.
  Tiles(const AttentionShape& shape, const RowLists& lists, std::int64_t num_rows,
        std::int32_t rows_per_tile);

  std::int64_t most() const { return most_; }
  const Tile* tiles() const { return tiles_.as<Tile>(); }
  const std::int32_t* count() const { return count_.as<std::int32_t>(); }

 private:
  std::int64_t most_;
  DeviceScratch tiles_, count_;
};

}  // namespace moh::tensor_cores
