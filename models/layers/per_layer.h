#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moh {

/// A count of each layer: one value for every layer, or a list with a value per layer.
struct PerLayer {
  std::int64_t every = 0;          ///< the count of every layer, unless `each` lists the counts
  std::vector<std::int64_t> each;  ///< empty, or one count per layer

  PerLayer(std::int64_t count = 0) : every(count) {}                                 // NOLINT: a count alone
  PerLayer(std::vector<std::int64_t> counts) : every(0), each(std::move(counts)) {}  // NOLINT: a list

  std::int64_t at(std::int64_t layer) const {
    return each.empty() ? every : each.at(static_cast<std::size_t>(layer));
  }

  bool operator==(const PerLayer&) const = default;
};

}  // namespace moh
