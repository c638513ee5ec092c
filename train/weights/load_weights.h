#pragma once

#include <span>

#include "models/module.h"
#include "train/formats/weight_file.h"

namespace moh {

/// Copies tensors into the parameters of the same names, converted to the parameters' dtype block by block:
/// no whole tensor is held a second time. Parameters without a tensor and tensors without a parameter are
/// left alone: compare_weights() tells. Throws CheckpointError where a shape differs or a type does not
/// convert (element_conversion.h), before anything is changed.
void load_weights(std::span<const NamedParameter> parameters, const WeightFile& weights);

}  // namespace moh
