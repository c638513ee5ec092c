#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "autograd/variable.h"

namespace moh {

/// Values of leaves that are still to come, from another process for instance: where the value of one of them
/// is first read (Variable::value()), all are completed. For leaves that one thread reads until then.
class PendingValue : public std::enable_shared_from_this<PendingValue> {
 public:
  /// `complete` makes the values good; it must not read them through the leaves.
  explicit PendingValue(std::function<void()> complete) : complete_(std::move(complete)) {}

  /// From now on, until it is complete, the leaf's value is this one.
  void belongs_to(const Variable& leaf);
  /// Runs what completes the values, once.
  void complete();

 private:
  std::function<void()> complete_;
};

}  // namespace moh
