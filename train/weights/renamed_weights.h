#pragma once

#include <memory>
#include <span>

#include "train/base/formats/weight_file.h"
#include "train/weights/parameter_names.h"

namespace moh {

/// The file with the names of a model's parameters where it has another name of one of them alone
/// (ParameterNames::other_name): a tied model that was saved with `lm_head.weight`. Other files are returned
/// as they are.
std::unique_ptr<WeightFile> under_names_of(std::span<const WeightInfo> parameters,
                                           const ParameterNames& names, std::unique_ptr<WeightFile> weights);

}  // namespace moh
