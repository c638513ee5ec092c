#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/config/run_config.h"
#include "train/tasks/diffusion/diffusion_run.h"
#include "train/tasks/family.h"
#include "train/tasks/images/data/picture_batch.h"

namespace moh {

/// The pictures of a run with diffusion.
struct DiffusionData final : TaskData {
  std::vector<std::string> class_names;
  PictureSourcePtr train;        ///< null for DataUse::kEvaluation
  PictureSourcePtr validation;   ///< null if nothing is held out
  bool epochs_are_known = true;  ///< whether `train` has as many pictures as the run's
  /// (key, PictureSource::describe_contents) of the data that training opened.
  std::vector<std::pair<std::string, std::string>> contents;
  std::shared_ptr<BrokenPictures> broken_in_training = std::make_shared<BrokenPictures>();
  std::shared_ptr<BrokenPictures> broken_in_validation = std::make_shared<BrokenPictures>();
};

/// Opens the pictures of the configuration that `use` needs. With kSynthetic, pictures of noise, one batch of
/// which is held out. Throws DataError, and ConfigError for a number of classes that is not the model's.
std::shared_ptr<const DiffusionData> open_diffusion_data(const RunConfig& run, DataUse use);

/// The training pictures of a run on opened data, from -1 to 1: the square in their middle, flipped at
/// random.
TrainingPictures training_pictures(const DiffusionData& data, const RunConfig& run);
/// How held-out pictures are seen.
EvaluationView held_out_view(const DiffusionRun& run);

/// Names of the model's classes without opening its data: those of its training, or numbers.
std::vector<std::string> class_names_of(const DiffusionRun& run);

}  // namespace moh
