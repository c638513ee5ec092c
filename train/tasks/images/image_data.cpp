#include "train/tasks/images/image_data.h"

#include <utility>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
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
  // Groups and repeated views cost nothing, and do not divide a step of every size.
  data->epochs_are_known =
      images.data.train.empty() && images.data.drawn > 0 && images.data.order.repeats == 1;
  const std::int64_t count = data->epochs_are_known ? images.data.drawn : kMany;
  data->train = noise_pictures(count, images.model.classes, side, run.random_seed());
  data->validation = noise_pictures(run.train.batch_size, images.model.classes, side, run.random_seed() + 1);
  data->class_names = data->train->class_names();
  data->augmentation = {
      .size = side, .crop = {.scale = {1, 1}, .ratio = {1, 1}}, .flip = 0, .rand_augment = {}, .erasing = {}};
  data->targets = {.mixing = {}, .label_smoothing = images.augment.label_smoothing};
  data->view = {.short_side = side, .crop = side};
  return data;
}

/// Names that fit into a line of a message, a table, a checkpoint.
void check_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.empty() && printable(name, name.size()) == name) continue;
    throw DataError(error_message("data", "name of a class", "UTF-8 text without control characters",
                                  "'" + printable(name) + "'", "rename its folder"));
  }
}

void read_names(const std::filesystem::path& path, std::vector<std::string>& names) {
  constexpr std::uint64_t kMostBytes = 16 << 20;
  const std::string text = read_text_file(path, InputKind::kData, kMostBytes);
  for (std::string& name : lines_of(text)) names.push_back(std::move(name));
  if (names.back().empty()) names.pop_back();  // the last line ends as the others
}

/// The names that the run gives or its checkpoint knows; empty if it leaves them to the pictures.
std::vector<std::string> given_names(const ImageRun& run) {
  if (run.data.class_names.empty()) return run.class_names;
  std::vector<std::string> names;
  for (const std::filesystem::path& path : run.data.class_names) read_names(path, names);
  return names;
}

void check_number(const std::vector<std::string>& names, const ImageRun& run) {
  const std::int64_t classes = std::ssize(names);
  if (classes == run.model.classes) return;
  const char* const whose =
      run.data.class_names.empty() ? "the classes of data.train" : "the names of data.class_names";
  throw ConfigError(error_message("model.classes", "", std::to_string(classes) + ", " + whose,
                                  std::to_string(run.model.classes)));
}

}  // namespace

std::shared_ptr<const ImageData> open_image_data(const RunConfig& run, DataUse use) {
  if (use == DataUse::kSynthetic) return synthetic_data(run);
  const ImageRun& images = image_run(run);
  const ImageDataConfig config = images.settled_data();
  ImageSources sources = open_image_sources(config, run.random_seed(), use, given_names(images));
  auto data = std::make_shared<ImageData>();
  data->class_names = (sources.train != nullptr ? sources.train : sources.validation)->class_names();
  check_names(data->class_names);
  check_number(data->class_names, images);
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
  std::vector<std::string> names = given_names(run);
  if (!names.empty()) {
    check_names(names);
    check_number(names, run);
  }
  for (std::int64_t i = std::ssize(names); i < run.model.classes; ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace moh
