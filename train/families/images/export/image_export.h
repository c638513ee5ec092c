#pragma once

#include <filesystem>
#include <string_view>

#include "train/families/images/image_run.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The `model_type` of config.json of models that modeling_moh_vit.py computes.
inline constexpr std::string_view kMohVit = "moh_vit";

/// Writes the files that PyTorch needs besides the weights of any classifier: config.json and its code,
/// modeling_moh_vit.py and moh_attention.py, which need torch and safetensors alone, and
/// transformers_moh_vit.py, which AutoModelForImageClassification loads with trust_remote_code=True. Tensors
/// keep moh's names; `dtype` is that of their file as named in PyTorch. `folder` must exist; files of these
/// names are replaced. Throws ConfigError for a router that the code does not compute, StorageError.
void write_moh_vit_files(const std::filesystem::path& folder, const ImageRun& run, std::string_view dtype);

/// Reads the config.json back, the view of pictures and the names of classes included. Throws CheckpointError
/// for a damaged file, ConfigError for values that no run can have.
ImageRun read_moh_vit_config(const std::filesystem::path& file, const ConfigJson& json);

}  // namespace moh
