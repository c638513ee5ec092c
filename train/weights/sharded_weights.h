#pragma once

#include <filesystem>
#include <memory>

#include "core/function_ref.h"
#include "train/formats/weight_file.h"

namespace moh {

/// What happens to an index whose `metadata.total_size` is not the size of the tensors. No tensor is read by
/// it, but it may mean that index and shards are of different models.
enum class TotalSize { kChecked, kWarned };

/// A model in several files ("shards") beside an index, as Hugging Face lays them out: JSON with `weight_map`
/// (tensor -> name of a file in the same folder) and, usually, `metadata.total_size` (bytes of all tensors).
/// `open_shard` opens one file; shards of any format go together. The index is untrusted: it may name plain
/// files beside it alone, and map and shards must agree tensor by tensor. Throws CheckpointError.
std::unique_ptr<WeightFile> open_sharded_weights(
    const std::filesystem::path& index,
    FunctionRef<std::unique_ptr<WeightFile>(const std::filesystem::path&)> open_shard,
    TotalSize total_size = TotalSize::kChecked);

}  // namespace moh
