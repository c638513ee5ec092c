#pragma once

#include <memory>
#include <span>

#include "train/formats/weight_file.h"
#include "train/weights/weight_names.h"

namespace moh {

/// The file with the names of a model's parameters where it has another name of one of them alone
/// (WeightNames::other_name): a tied model that was saved with `lm_head.weight`. Other files are returned as
/// they are.
std::unique_ptr<WeightFile> under_names_of(std::span<const WeightInfo> parameters, const WeightNames& names,
                                           std::unique_ptr<WeightFile> weights);

}  // namespace moh
