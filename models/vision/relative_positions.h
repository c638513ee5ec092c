#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace moh {

/// Height and width of an image of tokens.
struct GridSize {
  std::int64_t height = 0, width = 0;

  std::int64_t tokens() const { return height * width; }
  bool operator==(const GridSize&) const = default;
};

/// The relative positions of queries and keys, from which a small network computes the biases of attention
/// logits (continuous position bias: Liu et al. 2021, arXiv 2111.09883; as TransNeXt has it).
struct RelativePositions {
  /// float32 [R, 2]: the different offsets, vertical and horizontal, by height, then by width. An offset x of
  /// s tokens is sign(x) log2(|x| + 1) / 3 with x = 8 s / (side - 1), the side that of the images the model
  /// is trained on, in tokens; 0 where that side is 1.
  Tensor coordinates;
  Tensor index;  ///< int64 [N, M]: the row for each query and key, both row by row
};

/// Queries are the tokens of a grid. Keys are the cells of another, no larger one, as adaptive_avg_pool
/// divides it; the position of a cell is the mean of those it covers. Offsets are from the key to the query.
/// Throws ValueError for an empty grid, and for keys that are more than queries along an axis.
RelativePositions relative_positions(const GridSize& queries, const GridSize& keys, const GridSize& trained);

}  // namespace moh
