#pragma once

#include <cstdint>

#include "ops/attention/zero_heads_cuda.h"
#include "ops/cuda/scratch.h"

namespace moh::tensor_cores {

/// The work of one block: up to `rows` rows of one list, which see keys of [first_key, end_key).
struct Tile {
  std::int32_t list, first, rows, first_key, end_key;
};

/// The tiles of all lists, those with the most keys first, but only among lists whose keys and values fit in
/// L2 together. The number of tiles is known on the device only: launch most() blocks, of which those past
/// *count() return at once. The order of tiles of the same length may differ between runs, so no result may
/// depend on it.
class Tiles {
 public:
  /// `num_rows` is at least the number of rows of all lists. Further blocks of the launch write `zeros`.
  Tiles(const AttentionShape& shape, const RowLists& lists, std::int64_t num_rows, std::int32_t rows_per_tile,
        const HeadZeros<bfloat16>& zeros);

  std::int64_t most() const { return most_; }
  const Tile* tiles() const { return tiles_.as<Tile>(); }
  const std::int32_t* count() const { return count_.as<std::int32_t>(); }

 private:
  std::int64_t most_;
  DeviceScratch tiles_, count_;
};

}  // namespace moh::tensor_cores
