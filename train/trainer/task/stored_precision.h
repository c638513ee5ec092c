#pragma once

#include <span>

#include "train/base/formats/weight_file.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// Sets run.precision and the precision of the routers to those of stored tensors. Returns false, and leaves
/// the run as it is, if no model has parameters of these types: they are all F32 or all BF16, or BF16 with
/// routers of F32. Tensors that are no parameter of the model do not count.
bool take_precision(std::span<const WeightInfo> tensors, const Families& families, RunConfig& run);

/// The precision of the routers of a model by its tensors, for its description in an export.
RouterPrecision router_precision_of(std::span<const WeightInfo> tensors);

}  // namespace moh
