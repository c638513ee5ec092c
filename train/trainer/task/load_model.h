#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "train/comm/communicator.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/family.h"

namespace moh {

class StoredModel;

/// The algorithm for matrix multiplications that config.gemm_algorithms lacks.
enum class NewProducts {
  kFirstProposal,  ///< cuBLASLt's first proposal, without timing
  kSearch,         ///< the fastest of cuBLASLt's proposals
  kSearchAndKeep   ///< the fastest, which is added to the file
};

/// In several processes with device: cuda, makes config.device the GPU of this one (gpu_of_process()), which
/// all do together. Throws ConfigError, also for a device that names one GPU for all of them.
void take_gpu(RunConfig& config, Communicator& processes);

/// Opens config.device. On a GPU, subsequent matrix multiplications use the algorithms of
/// config.gemm_algorithms. Throws DeviceError, and DataError for a file that cannot be read or is for another
/// GPU. If the file cannot be written, the matrix multiplication that adds to it throws StorageError.
void open_configured_device(const RunConfig& config, NewProducts new_products);

/// Device, precision, math mode and attention back end of a run.
Placement placement_of(const RunConfig& run);

/// Names, shapes and types of the parameters of the model that `config` describes, in the model's order,
/// without allocating them, for a model of `dtype`.
std::vector<WeightInfo> expected_tensors(const Family& family, const FamilyConfig& config,
                                         DType dtype = DType::kFloat32);

/// A model with random initial weights.
std::unique_ptr<Model> make_initialised_model(const Family& family, const RunConfig& run);

/// The run with the first heads shared in place of those that a rule would have to measure on a checkpoint: a
/// model of the same sizes and operations, for commands that plan or time it without the weights.
RunConfig with_first_heads(RunConfig run);

/// The active heads of the run's model, which is made in a dry run (models/active_heads.h).
std::string active_heads_of(const RunConfig& run, const Family& family);

/// The run of the teacher of init.distill.teacher: source: the dense model of the run.
RunConfig teacher_run(const RunConfig& run);
/// Whether the run has a teacher with weights of its own.
bool has_own_teacher(const RunConfig& run);

/// A trained model, on the device of `config`.
struct LoadedModel {
  std::filesystem::path path;  ///< the step folder that was read, or the given path
  RunConfig config;
  const Family* family = nullptr;
  std::unique_ptr<Model> model;
};

/// Loads a checkpoint: the newest one of a run folder or `checkpoints` folder, a step folder, or weights of
/// other programs with a config.json, such as a Hugging Face folder. Checksums, if any, are verified and all
/// tensors compared with the model before it is allocated. `overrides` change the configuration stored with
/// the model; weights of another precision than its are converted, which is logged. Of a run
/// with ema.evaluate, the moving average of the weights is loaded. Of several `processes`, each loads it to a
/// GPU of its own. `description`, a run's YAML or a config.json, describes weights that come without one;
/// without it their tensors have to tell the model, and overrides what they leave open. Throws
/// CheckpointError that lists all missing and unexpected tensors and differing shapes; ConfigError,
/// DeviceError.
LoadedModel load_model(const std::filesystem::path& path, const Families& families,
                       const std::vector<std::string>& overrides = {}, ConfigUse use = ConfigUse::kModel,
                       Communicator& processes = one_process(),
                       const std::filesystem::path& description = {});
/// Loads a model of which a command has asked something before.
LoadedModel load_model(StoredModel stored, const std::vector<std::string>& overrides, ConfigUse use,
                       Communicator& processes);

}  // namespace moh
