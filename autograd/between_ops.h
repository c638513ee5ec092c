#pragma once

#include <functional>

namespace moh {

/// While it lives, `work` is called in this thread between ops: after an op has computed its outputs,
/// recorded or not, after its backward pass, and by those who fill or read parameters one by one. Then no op
/// holds the address of a tensor's elements, so that memory which is made again when it is read
/// (Tensor::release_until_read) may be released. Not called after ops that run to make such a tensor again,
/// as the op that reads it has begun.
class BetweenOps {
 public:
  explicit BetweenOps(std::function<void()> work);
  ~BetweenOps();
  BetweenOps(const BetweenOps&) = delete;
  BetweenOps& operator=(const BetweenOps&) = delete;

  /// Calls the work of all that live, the last one first.
  static void reached();

 private:
  std::function<void()> work_;
  BetweenOps* outer_;
};

}  // namespace moh
