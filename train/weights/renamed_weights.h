#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "train/base/formats/weight_file.h"
#include "train/weights/parameter_names.h"

namespace moh {

/// The file with the names of a model's parameters where it has other names of them alone
/// (ParameterNames::other_names): a tied model that was saved with `lm_head.weight`. Other files are returned
/// as they are.
std::unique_ptr<WeightFile> under_names_of(std::span<const WeightInfo> parameters,
                                           const ParameterNames& names, std::unique_ptr<WeightFile> weights);

/// New names of tensors by those in the file.
using NewNames = std::map<std::string, std::string, std::less<>>;

/// The tensors of a file, which must outlive the result, with new names for some.
std::unique_ptr<WeightFile> renamed(const WeightFile& weights, const NewNames& names);

}  // namespace moh
