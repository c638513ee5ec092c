#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "models/vision/relative_positions.h"

namespace moh {

/// Values that a model computes on the host for a size of its images, on the model's device, when the size
/// first comes: a training step that repeats copies nothing from the host, and can be captured as a CUDA
/// graph. Values are kept as long as the model, as a graph reads their addresses. Not thread-safe.
template <class Value>
class PerSize {
 public:
  /// make() is called for a size that is new.
  template <class Make>
  const Value& get(const GridSize& size, const Make& make) {
    for (const auto& [known, value] : values_) {
      if (known == size) return *value;
    }
    values_.emplace_back(size, std::make_unique<Value>(make()));
    return *values_.back().second;
  }

 private:
  std::vector<std::pair<GridSize, std::unique_ptr<Value>>> values_;
};

}  // namespace moh
