#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/config/load_run_config.h"
#include "train/tasks/family.h"

namespace moh {

/// What happens to matrix products that config.gemm_algorithms has no algorithm for.
enum class NewProducts {
  kFirstProposal,  ///< cuBLASLt's first proposal, untimed
  kSearch,         ///< its fastest
  kSearchAndKeep   ///< its fastest, which the file gets
};

/// Opens config.device. On a GPU, matrix multiplications are computed by the algorithms of
/// config.gemm_algorithms from then on. Throws DeviceError, and DataError for a file that cannot be read or
/// is of another GPU; when the file cannot be written, the product throws StorageError.
void open_configured_device(const RunConfig& config, NewProducts new_products);

/// Where a run computes, in which precision and with whose kernels.
Placement placement_of(const RunConfig& run);

/// The parameters of the model that `config` describes, in its order, without memory for any of them. Their
/// types are those of a model of `dtype`.
std::vector<WeightInfo> expected_tensors(const Family& family, const FamilyConfig& config,
                                         DType dtype = DType::kFloat32);

/// A model with its first random weights.
std::unique_ptr<Model> make_initialised_model(const Family& family, const RunConfig& run);

/// A model that was trained, as commands use it, on the device of `config`.
struct LoadedModel {
  std::filesystem::path path;  ///< the step folder that was read, or what else was named
  RunConfig config;
  const Family* family = nullptr;
  std::unique_ptr<Model> model;
};

/// Reads a checkpoint: a run folder (the newest), a `checkpoints` folder, one step's folder, or weights of
/// others with a config.json beside them, such as a Hugging Face folder, as they are. What has checksums is
/// verified first, and all is compared with the model before that takes memory. `overrides` change the
/// configuration that lies beside the model; weights of another precision than that are converted, and the
/// log says so. Throws CheckpointError that lists everything that is missing, too much or of another shape;
/// ConfigError, DeviceError.
LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides = {}, ConfigUse use = ConfigUse::kModel);

}  // namespace moh
