#pragma once

#include "core/device.h"

namespace moh::test {

/// Trains small models for twenty steps with each way to make gates that is not the default, and checks that
/// they learn, and that their gates are those which the configuration names.
void check_training_with_gates(Device device);

}  // namespace moh::test
