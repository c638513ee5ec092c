#pragma once

#include <filesystem>
#include <memory>

#include "train/formats/weight_file.h"

namespace moh {

/// A safetensors file.
std::unique_ptr<WeightFile> open_safetensors_weights(const std::filesystem::path& path);

/// The model of a checkpoint of moh, a step folder. Opening checks the manifest,
/// the name of the folder and the texts; before the first elements
/// are handed out, all of them are compared with its checksums, which takes another pass over the file.
std::unique_ptr<WeightFile> open_checkpoint_weights(const std::filesystem::path& step_folder);

}  // namespace moh
