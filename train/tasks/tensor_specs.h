#pragma once

#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/tasks/family.h"

namespace moh {

/// Names and shapes of the parameters of the model that `config` describes, in its order, without memory for
/// any of them. As in a float32 model.
std::vector<TensorSpec> tensor_specs(const Family& family, const FamilyConfig& config);

}  // namespace moh
