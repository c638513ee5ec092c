#pragma once

#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/tasks/family.h"

namespace moh {

/// Names and shapes of the parameters of the model that `config` describes, in its order, without memory for
/// any of them. Their types are those of a model of `dtype`.
std::vector<TensorSpec> tensor_specs(const Family& family, const FamilyConfig& config,
                                     DType dtype = DType::kFloat32);

}  // namespace moh
