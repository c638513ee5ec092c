#pragma once

#include <span>
#include <string_view>

#include "train/checkpoint/stored_checkpoint.h"
#include "train/optim/parameter_shards.h"

namespace moh {

/// Reads parts of tensors from a checkpoint whose files have each tensor whole, or as many parts of it, one
/// after the other in the order of the files: what any number of processes wrote, any number reads.
/// Everything is verified and compared before anything is changed. Tensors that no part is of are ignored.
/// Throws CheckpointError for a tensor that is not there, or of another size or type; `where` begins its
/// message.
void load_parts(std::string_view where, std::span<const StoredTensors> from, std::span<const TensorPart> to);

}  // namespace moh
