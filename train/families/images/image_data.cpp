#include "train/families/images/image_data.h"

#include <utility>

#include "train/families/images/class_names.h"
#include "train/families/images/data/made_pictures.h"
#include "train/families/images/image_run.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

/// Pictures that are made at next to no cost.
std::shared_ptr<const ImageData> synthetic_data(const RunConfig& run) {
  constexpr std::int64_t kMany = std::int64_t{1} << 30;
  const ImageRun& images = image_run(run);
  auto data = std::make_shared<ImageData>();
  const int side = static_cast<int>(images.settled_data().image_size);
  // Groups and repeated views cost nothing, and do not divide a step of every size.
  data->epochs_are_known =
      images.data.train.empty() && images.data.drawn > 0 && images.data.order.repeats == 1;
  const std::int64_t count = data->epochs_are_known ? images.data.drawn : kMany;
  data->train = noise_pictures(count, images.model.classes, side, run.random_seed());
  data->validation = noise_pictures(run.train.batch_size, images.model.classes, side, run.random_seed() + 1);
  data->augmentation = {
      .size = side, .crop = {.scale = {1, 1}, .ratio = {1, 1}}, .flip = 0, .rand_augment = {}, .erasing = {}};
  data->targets = {.mixing = {}, .label_smoothing = images.augment.label_smoothing};
  data->view = {.short_side = side, .crop = side};
  return data;
}

/// The classes that the run gives, or that its checkpoint knows.
GivenClasses given_classes(const ImageRun& run) {
  return {run.data.class_names, run.class_names, run.model.classes};
}

}  // namespace

std::shared_ptr<const ImageData> open_image_data(const RunConfig& run, DataUse use) {
  if (use == DataUse::kSynthetic) return synthetic_data(run);
  const ImageRun& images = image_run(run);
  const ImageDataConfig config = images.settled_data();
  ImageSources sources = open_image_sources(config, run.random_seed(), use,
                                            given_names(given_classes(images)), images.model.classes);
  auto data = std::make_shared<ImageData>();
  data->class_names = (sources.train != nullptr ? sources.train : sources.validation)->class_names();
  check_class_names(data->class_names, given_classes(images));
  data->train = std::move(sources.train);
  data->validation = std::move(sources.validation);
  data->order = config.order;
  data->augmentation = augmentation_of(config, images.augment);
  data->targets = target_options_of(images.augment);
  data->view = evaluation_view_of(config);
  data->contents = std::move(sources.contents);
  return data;
}

SampleOrder sample_order(const ImageData& data, const RunConfig& run) {
  return {data.train->size(), run.train.batch_size * run.train.accumulate, run.random_seed(), data.order};
}

TrainingPictures training_pictures(const ImageData& data, const RunConfig& run) {
  return {data.train,
          data.augmentation,
          data.targets,
          sample_order(data, run),
          run.random_seed(),
          image_run(run).data.on_error,
          data.broken_in_training};
}

std::vector<std::string> class_names_of(const ImageRun& run) {
  return class_names_of(given_classes(run));
}

}  // namespace moh
