#include "train/tasks/images/image_data.h"

#include "core/error.h"
#include "train/tasks/images/data/noise_pictures.h"
#include "train/tasks/images/image_run.h"

namespace moh {

namespace {

/// Pictures that are made at next to no cost.
std::shared_ptr<const ImageData> synthetic_data(const RunConfig& run) {
  constexpr std::int64_t kMany = std::int64_t{1} << 30;
  const ImageRun& images = image_run(run);
  auto data = std::make_shared<ImageData>();
  const int side = static_cast<int>(images.settled_data().image_size);
  data->train = noise_pictures(kMany, images.model.classes, side, run.random_seed());
  data->validation = noise_pictures(run.train.batch_size, images.model.classes, side, run.random_seed() + 1);
  data->class_names = data->train->class_names();
  data->augmentation = {
      .size = side, .crop = {.scale = {1, 1}, .ratio = {1, 1}}, .flip = 0, .rand_augment = {}, .erasing = {}};
  data->targets = {.mixing = {}, .label_smoothing = images.augment.label_smoothing};
  data->view = {.short_side = side, .crop = side};
  return data;
}

}  // namespace

std::shared_ptr<const ImageData> open_image_data(const RunConfig& run, DataUse use) {
  if (use == DataUse::kSynthetic) return synthetic_data(run);
  const ImageRun& images = image_run(run);
  const ImageDataConfig config = images.settled_data();
  ImageSources sources = open_image_sources(config, run.random_seed(), use);
  auto data = std::make_shared<ImageData>();
  data->class_names = (sources.train != nullptr ? sources.train : sources.validation)->class_names();
  data->train = std::move(sources.train);
  data->validation = std::move(sources.validation);
  data->augmentation = augmentation_of(config, images.augment);
  data->targets = target_options_of(images.augment);
  data->view = evaluation_view_of(config);
  data->contents = std::move(sources.contents);
  const std::int64_t classes = std::ssize(data->class_names);
  if (classes != images.model.classes) {
    throw ConfigError(error_message("model.classes", "",
                                    std::to_string(classes) + ", the classes of data.train",
                                    std::to_string(images.model.classes)));
  }
  return data;
}

}  // namespace moh
