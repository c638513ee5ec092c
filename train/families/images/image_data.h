#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/families/images/data/picture_batch.h"
#include "train/families/images/image_run.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// The pictures of a run, for training and for evaluation.
struct ImageData final : TaskData {
  std::vector<std::string> class_names;  ///< none for kSynthetic
  PictureSourcePtr train;                ///< null for DataUse::kEvaluation
  PictureSourcePtr validation;           ///< null if nothing is held out
  bool epochs_are_known = true;          ///< whether `train` has as many pictures as the run's
  SampleOrderOptions order;
  Augmentation augmentation;
  TargetOptions targets;
  EvaluationView view;
  std::shared_ptr<BrokenPictures> broken_in_training = std::make_shared<BrokenPictures>();
  std::shared_ptr<BrokenPictures> broken_in_validation = std::make_shared<BrokenPictures>();
};

/// Opens the pictures of the configuration that `use` needs. With kSynthetic, pictures of noise, one batch of
/// which is held out, and of which nothing but their size is changed. Throws DataError, and ConfigError for a
/// number of classes that is not the model's.
std::shared_ptr<const ImageData> open_image_data(const RunConfig& run, DataUse use);

/// The training batches of a run on opened data. Throws as SampleOrder does.
TrainingPictures training_pictures(const ImageData& data, const RunConfig& run);
SampleOrder sample_order(const ImageData& data, const RunConfig& run);

/// Names of the model's classes without opening its data: those of data.class_names or of its training; their
/// numbers where neither is there. Throws as open_image_data() does.
std::vector<std::string> class_names_of(const ImageRun& run);

}  // namespace moh
