#pragma once

#include "train/weights/weight_names.h"

namespace moh {

/// LLaMA models as Hugging Face's transformers names them, and MoH-LLaMA as the released code does.
const WeightNames& language_weight_names();

}  // namespace moh
