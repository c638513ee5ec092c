#pragma once

#include "models/module.h"

namespace moh::test {

/// Gradients of a whole attention layer that a query_norm router drives, with each estimator of the gates'
/// gradients, beside those that plain float64 loops give. Elements may differ by `tolerance`, relative to the
/// largest of their tensor.
void check_straight_through(Placement placement, double tolerance);

}  // namespace moh::test
