#pragma once

#include <memory>
#include <string_view>

#include "train/base/formats/weight_file.h"

namespace moh {

/// The tensors of a model with low-rank adapters (models/llm/lora.h) as those of one without: each
/// `NAME.weight` W that has `NAME.lora_A.weight` A and `NAME.lora_B.weight` B is W + scale * B A, computed in
/// float32 and rounded once, to `dtype` ("F32"; empty: the type of W); the others are as they are. A block of
/// a tensor is computed when it is read, from A, which is in memory then, and the rows of B. Throws
/// CheckpointError for an adapter without its weight or its other matrix, for shapes that do not fit, and for
/// types other than F32, BF16 and F16.
std::unique_ptr<WeightFile> merged(std::unique_ptr<WeightFile> weights, double scale, std::string_view dtype);

}  // namespace moh
