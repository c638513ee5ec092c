#include "train/tasks/diffusion/diffusion_data.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "train/tasks/diffusion/diffusion_batch.h"
#include "train/tasks/images/data/noise_pictures.h"
#include "train/tasks/images/image_data.h"

namespace moh {

namespace {

/// Pictures that are made at next to no cost.
std::shared_ptr<const DiffusionData> synthetic_data(const RunConfig& run) {
  constexpr std::int64_t kMany = std::int64_t{1} << 30;
  const DiffusionRun& own = diffusion_run(run);
  auto data = std::make_shared<DiffusionData>();
  const int side = static_cast<int>(own.model.image_size);
  data->epochs_are_known = own.data.train.empty() && own.data.drawn > 0;
  data->train = noise_pictures(data->epochs_are_known ? own.data.drawn : kMany, own.model.classes, side,
                               run.random_seed());
  data->validation = noise_pictures(run.train.batch_size, own.model.classes, side, run.random_seed() + 1);
  data->class_names = data->train->class_names();
  return data;
}

/// The classes that the run gives, or that its checkpoint knows.
GivenClasses given_classes(const DiffusionRun& run) {
  return {run.data.class_names, run.class_names, run.model.classes};
}

}  // namespace

std::shared_ptr<const DiffusionData> open_diffusion_data(const RunConfig& run, DataUse use) {
  if (use == DataUse::kSynthetic) return synthetic_data(run);
  const DiffusionRun& own = diffusion_run(run);
  if (own.model.channels != Picture::kChannels) {
    throw ConfigError(error_message("model.channels", "", "3 for pictures",
                                    std::to_string(own.model.channels),
                                    "latents are not read yet: set model.channels: 3 and model.image_size"));
  }
  ImageSources sources =
      open_image_sources(own.settled_data(), run.random_seed(), use, given_names(given_classes(own)));
  auto data = std::make_shared<DiffusionData>();
  data->class_names = (sources.train != nullptr ? sources.train : sources.validation)->class_names();
  check_class_names(data->class_names, given_classes(own));
  data->train = std::move(sources.train);
  data->validation = std::move(sources.validation);
  data->contents = std::move(sources.contents);
  return data;
}

TrainingPictures training_pictures(const DiffusionData& data, const RunConfig& run) {
  const DiffusionRun& own = diffusion_run(run);
  const Augmentation augmentation{.size = static_cast<int>(own.model.image_size),
                                  .filter = own.data.interpolation,
                                  .crop = {.scale = {1, 1}, .ratio = {1, 1}},
                                  .flip = own.diffusion.flip,
                                  .rand_augment = {},
                                  .color_jitter = {},
                                  .normalize = kSignedPixels,
                                  .erasing = {}};
  const SampleOrder order(data.train->size(), run.train.batch_size * run.train.accumulate, run.random_seed(),
                          {});
  return {data.train,
          augmentation,
          {.mixing = {}, .label_smoothing = 0},
          order,
          run.random_seed(),
          own.data.on_error,
          data.broken_in_training};
}

EvaluationView held_out_view(const DiffusionRun& run) {
  const int side = static_cast<int>(run.model.image_size);
  return {.short_side = side, .crop = side, .filter = run.data.interpolation, .normalize = kSignedPixels};
}

std::vector<std::string> class_names_of(const DiffusionRun& run) {
  return class_names_of(given_classes(run));
}

}  // namespace moh
