#pragma once

#include <filesystem>
#include <string_view>

#include "train/families/diffusion/diffusion_run.h"
#include "train/weights/hf/config_json.h"

namespace moh {

/// The `model_type` of config.json of models that modeling_moh_dit.py computes.
inline constexpr std::string_view kMohDit = "moh_dit";

/// Writes the files that PyTorch needs besides the weights of a diffusion transformer, dense or MoH:
/// config.json, and modeling_moh_dit.py and moh_attention.py, which need torch and safetensors alone. Tensors
/// keep moh's names; `dtype` is that of their file as named in PyTorch. `folder` must exist; files of these
/// names are replaced. Throws ConfigError for a router that the code does not compute, StorageError.
void write_moh_dit_files(const std::filesystem::path& folder, const DiffusionRun& run,
                         std::string_view dtype);

/// Reads the config.json back, with the share of dropped labels, the names of classes, and the hash of the
/// autoencoder. Throws CheckpointError for a damaged file, ConfigError for values that no run can have.
DiffusionRun read_moh_dit_config(const std::filesystem::path& file, const ConfigJson& json);

}  // namespace moh
