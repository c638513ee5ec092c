#pragma once

#include "core/tensor.h"

namespace moh {

/// In a dry run, whose kernels read nothing: has the backward pass read `value` when it comes to the op that
/// was recorded last in this thread, so that what is recomputed is counted where it would be.
void read_in_dry_backward(const Tensor& value);

}  // namespace moh
