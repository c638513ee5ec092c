#pragma once

#include <filesystem>
#include <memory>

#include "core/function_ref.h"
#include "train/base/formats/weight_file.h"

namespace moh {

/// Whether `metadata.total_size` of the index must be the size of all tensors, or is only warned about. It is
/// not used to read tensors, but a difference may mean that index and shards belong to different models.
enum class TotalSize { kChecked, kWarned };

/// Opens a model in several files ("shards") with an index, in Hugging Face's layout: JSON with `weight_map`
/// (tensor -> name of a file in the same folder) and, usually, `metadata.total_size` (bytes of all tensors).
/// `open_shard` opens one file; formats may be mixed. The index is untrusted: it may only name files in its
/// folder, and must agree with the shards for each tensor. Throws CheckpointError.
std::unique_ptr<WeightFile> open_sharded_weights(
    const std::filesystem::path& index,
    FunctionRef<std::unique_ptr<WeightFile>(const std::filesystem::path&)> open_shard,
    TotalSize total_size = TotalSize::kChecked);

}  // namespace moh
