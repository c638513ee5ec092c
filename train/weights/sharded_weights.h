#pragma once

#include <filesystem>
#include <memory>

#include "core/function_ref.h"
#include "train/formats/weight_file.h"

namespace moh {

/// A model in several files ("shards") beside an index, as Hugging Face lays them out: JSON with `weight_map`
/// (tensor -> name of a file in the same folder) and, usually, `metadata.total_size` (bytes of all tensors).
/// `open_shard` opens one file; shards of any format go together. The index is untrusted: it may name plain
/// files beside it alone, and map and shards must agree tensor by tensor. Throws CheckpointError.
std::unique_ptr<WeightFile> open_sharded_weights(
    const std::filesystem::path& index,
    FunctionRef<std::unique_ptr<WeightFile>(const std::filesystem::path&)> open_shard);

}  // namespace moh
