#pragma once

#include "core/device.h"
#include "core/dtype.h"

namespace moh::test {

/// The gradient of ids in runs that begin and end at, before and behind the borders at which kernels cut
/// their work, beside plain loops: sums of small integers, which have no rounding, so bit for bit.
void check_embedding_runs(Device device, DType dtype);

}  // namespace moh::test
