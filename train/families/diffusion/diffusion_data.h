#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/families/diffusion/diffusion_run.h"
#include "train/families/diffusion/diffusion_starts.h"
#include "train/families/diffusion/load_autoencoder.h"
#include "train/trainer/task/family.h"

namespace moh {

struct RunConfig;

/// The training data of a diffusion run: one of the two, or nothing.
struct DiffusionSource {
  PictureSourcePtr pictures;
  LatentSourcePtr latents;

  const LabelledSource* get() const {
    return latents != nullptr ? static_cast<const LabelledSource*>(latents.get()) : pictures.get();
  }
};

/// The opened data of a run with diffusion.
struct DiffusionData final : TaskData {
  std::vector<std::string> class_names;
  DiffusionSource train;         ///< nothing for DataUse::kEvaluation
  HeldOutStartsPtr validation;   ///< null if nothing is held out
  bool epochs_are_known = true;  ///< whether `train` has as many pictures as the run's
  /// Decodes what the model of latents draws in training; null without sample.autoencoder, and for other
  /// uses.
  std::shared_ptr<const Autoencoder> autoencoder;
  std::string latents_of;  ///< hash of the autoencoder that made the training's latents; empty: none
  std::shared_ptr<BrokenPictures> broken_in_training = std::make_shared<BrokenPictures>();
  std::shared_ptr<BrokenPictures> broken_in_validation = std::make_shared<BrokenPictures>();
};

/// Opens the pictures, or latents, of the configuration that `use` needs, and for training the autoencoder of
/// sample.autoencoder. With kSynthetic, pictures of noise or latents of noise, one batch of which is held
/// out. Throws DataError; ConfigError for data of other channels, sizes or a number of classes than the
/// model's; as load_decoder().
std::shared_ptr<const DiffusionData> open_diffusion_data(const RunConfig& run, DataUse use);

/// The training samples of a run on opened data, flipped at random: of pictures the square in their middle.
std::unique_ptr<TrainingStarts> training_starts(const DiffusionData& data, const RunConfig& run);

/// Opens files to evaluate the run's model on, with classes of their own. Throws as open_diffusion_data().
HeldOutStartsPtr open_held_out(const DiffusionRun& run, const std::vector<std::string>& paths);

/// Names of the model's classes without opening its data: those of its training, or numbers.
std::vector<std::string> class_names_of(const DiffusionRun& run);

}  // namespace moh
