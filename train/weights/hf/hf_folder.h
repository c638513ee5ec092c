#pragma once

#include <filesystem>
#include <span>
#include <string_view>

#include "train/weights/locate_model.h"
#include "train/weights/weight_writer.h"

namespace moh {

/// Whether the model comes with a config.json.
bool is_hf_model(const ModelLocation& source);

/// The type of most of the tensors' bytes as named in PyTorch, which is what config.json has: "bfloat16".
/// Throws CheckpointError for a type that config.json does not have; `source` is where they come from.
std::string_view torch_dtype_name(const ModelLocation& source, std::span<const TensorToWrite> tensors);

/// Copies files beside a config.json that moh does not read, but that somebody who gets the model needs: the
/// tokenizer's, the licence. Each synced. Nothing where the model has no config.json. Throws CheckpointError,
/// StorageError.
void copy_companions(const ModelLocation& source, const std::filesystem::path& folder);

}  // namespace moh
