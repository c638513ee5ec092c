#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/function_ref.h"

namespace moh {

/// The micro-batches of a step that are fetched as they are needed: one after the other, once, or, if
/// `twice`, in two turns (TrainingData::load), kept in host memory meanwhile.
template <class Batch>
class StepBatches {
 public:
  explicit StepBatches(bool twice) : twice_(twice) {}

  /// Micro-batch `index` of the step; `fetch` returns the next one.
  Batch at(std::int64_t index, FunctionRef<Batch()> fetch) {
    if (!twice_) return fetch();
    const auto number = static_cast<std::size_t>(index);
    MOH_CHECK(number <= kept_.size(), "micro-batches are loaded in order");
    if (number == kept_.size()) kept_.push_back(fetch());
    return kept_[number];
  }
  void clear() { kept_.clear(); }

 private:
  bool twice_;
  std::vector<Batch> kept_;
};

}  // namespace moh
