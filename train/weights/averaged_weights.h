#pragma once

#include <memory>
#include <vector>

#include "train/base/formats/weight_file.h"

namespace moh {

/// The mean of several files' weights, element by element: sums in float32 in the order of the files, divided
/// by their number and rounded to the files' type. Everything but the elements, such as the metadata, is that
/// of the last file. Memory: three blocks.
///
/// Throws CheckpointError for no files, for tensors that differ in name, type or shape, and for types other
/// than F32, BF16 and F16.
std::unique_ptr<WeightFile> averaged(std::vector<std::unique_ptr<WeightFile>> files);

}  // namespace moh
