#include "models/vision/relative_positions.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "ops/pool/adaptive_avg_pool_kernels.h"

namespace moh {

namespace {

/// The offsets along one axis, in half tokens, so that the middle of a cell is an integer.
struct AxisOffsets {
  std::vector<std::int64_t> different;  // ascending
  std::vector<std::int64_t> number;     // [queries, keys]: the place of the offset in `different`
  std::int64_t keys;

  AxisOffsets(std::int64_t queries, std::int64_t num_keys) : keys(num_keys) {
    const PoolAxis cells{queries, keys};
    for (std::int64_t q = 0; q < queries; ++q) {
      for (std::int64_t k = 0; k < keys; ++k) number.push_back(2 * q - (cells.first(k) + cells.last(k) - 1));
    }
    different = number;
    std::ranges::sort(different);
    different.erase(std::unique(different.begin(), different.end()), different.end());
    for (std::int64_t& offset : number)
      offset = std::ranges::lower_bound(different, offset) - different.begin();
  }
  std::int64_t at(std::int64_t query, std::int64_t key) const {
    return number[static_cast<std::size_t>(query * keys + key)];
  }
};

/// In float32, as the released code computes it.
float coordinate(std::int64_t half_tokens, std::int64_t trained_side) {
  const auto longest = static_cast<float>(std::max<std::int64_t>(trained_side - 1, 1));
  const float x = static_cast<float>(half_tokens) / 2.0F / longest * 8.0F;
  return std::copysign(std::log2(std::abs(x) + 1.0F) / 3.0F, x);
}

void check_axis(std::string_view name, std::int64_t queries, std::int64_t keys, std::int64_t trained) {
  if (queries >= 1 && keys >= 1 && keys <= queries && trained >= 1) return;
  throw ValueError(error_message("relative_positions", name,
                                 "1 or more tokens, and no more keys than queries",
                                 std::to_string(queries) + " queries, " + std::to_string(keys) +
                                     " keys, trained on " + std::to_string(trained)));
}

}  // namespace

RelativePositions relative_positions(const GridSize& queries, const GridSize& keys, const GridSize& trained) {
  check_axis("height", queries.height, keys.height, trained.height);
  check_axis("width", queries.width, keys.width, trained.width);
  const AxisOffsets y(queries.height, keys.height), x(queries.width, keys.width);
  const auto rows = static_cast<std::int64_t>(y.different.size()),
             columns = static_cast<std::int64_t>(x.different.size());
  RelativePositions positions{empty({rows * columns, 2}, DType::kFloat32),
                              empty({queries.tokens(), keys.tokens()}, DType::kInt64)};
  auto* coordinates = positions.coordinates.data<float>();
  for (const std::int64_t dy : y.different) {
    for (const std::int64_t dx : x.different) {
      *coordinates++ = coordinate(dy, trained.height);
      *coordinates++ = coordinate(dx, trained.width);
    }
  }
  auto* index = positions.index.data<std::int64_t>();
  for (std::int64_t q = 0; q < queries.tokens(); ++q) {
    for (std::int64_t k = 0; k < keys.tokens(); ++k) {
      *index++ = y.at(q / queries.width, k / keys.width) * columns + x.at(q % queries.width, k % keys.width);
    }
  }
  return positions;
}

}  // namespace moh
