#pragma once

#include "core/tensor.h"

namespace moh {

/// Makes `to` hold what `value`, in host memory, does: on the CPU as another handle to it, on a GPU by a
/// copy to memory that stays the same from call to call, as captured work needs it (TrainingData::load).
/// Shape and dtype stay the same, too. Neither may be defined.
inline void place(Tensor& to, const Tensor& value, Device device) {
  if (device == kCpu || !value.defined()) {
    to = value;
    return;
  }
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  if (!to.defined()) to = empty(value.shape(), value.dtype(), device);
  to.copy_from(value);
}

}  // namespace moh
