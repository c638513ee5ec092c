#pragma once

#include "core/tensor.h"

namespace moh {

/// What comes before each measured run on a GPU; nothing on the CPU. It overwrites more memory than the
/// level 2 cache holds, so that operands come from memory, as in a model, whose layers are larger than the
/// cache. While the device does that the host gets ahead of it: what is measured is then the device's work,
/// and not how long the host takes to start it.
class HeadStart {
 public:
  /// A GPU has to be open.
  explicit HeadStart(Device device);

  void operator()() const;

 private:
  Tensor block_;  // undefined on the CPU
};

}  // namespace moh
