#include "train/families/diffusion/diffusion_data.h"

#include <filesystem>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/families/diffusion/sampling/trained_guidance.h"
#include "train/families/diffusion/signed_pixels.h"
#include "train/families/images/class_names.h"
#include "train/families/images/data/made_pictures.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

bool is_of_pixels(const DiffusionRun& run) {
  return run.model.channels == Picture::kChannels;
}

/// How held-out pictures are seen.
EvaluationView held_out_view(const DiffusionRun& run) {
  const int side = static_cast<int>(run.model.image_size);
  return {.short_side = side, .crop = side, .filter = run.data.interpolation, .normalize = kSignedPixels};
}

/// Data that are made at next to no cost.
std::shared_ptr<const DiffusionData> synthetic_data(const RunConfig& run) {
  constexpr std::int64_t kMany = std::int64_t{1} << 30;
  const DiffusionRun& own = diffusion_run(run);
  const DitConfig& model = own.model;
  const int side = static_cast<int>(model.image_size);
  auto data = std::make_shared<DiffusionData>();
  data->epochs_are_known = own.data.train.empty() && own.data.drawn > 0;
  const std::int64_t count = data->epochs_are_known ? own.data.drawn : kMany;
  if (is_of_pixels(own)) {
    data->train.pictures = noise_pictures(count, model.classes, side, run.random_seed());
    data->validation = held_out_starts(
        noise_pictures(run.train.batch_size, model.classes, side, run.random_seed() + 1), held_out_view(own));
  } else {
    data->train.latents = noise_latents(count, model.classes, model.channels, side);
    data->validation =
        held_out_starts(noise_latents(run.train.batch_size, model.classes, model.channels, side));
  }
  return data;
}

/// The classes that the run gives, or that its checkpoint knows.
GivenClasses given_classes(const DiffusionRun& run) {
  return {run.data.class_names, run.class_names, run.model.classes};
}

/// Throws for a model of latents, and where a path is not there, for that.
void require_pixels(const DiffusionRun& run, const std::vector<std::filesystem::path>& paths) {
  if (is_of_pixels(run)) return;
  for (const std::filesystem::path& path : paths) {
    if (!std::filesystem::exists(path))
      throw DataError(error_message(printable_path(path), "", "latents", "nothing of this name"));
  }
  throw ConfigError(error_message("model.channels", "", "3 for pictures", std::to_string(run.model.channels),
                                  "'moh data latents' makes latents of pictures, for data.train"));
}

/// Throws unless the latents are such as the model makes.
void require_fit(const LatentSource& latents, const DiffusionRun& run) {
  const auto require = [](const char* key, std::int64_t expected, std::int64_t found) {
    if (expected != found)
      throw ConfigError(
          error_message(key, "", std::to_string(expected) + ", as the latents have", std::to_string(found)));
  };
  require("model.channels", latents.channels(), run.model.channels);
  require("model.image_size", latents.width(), run.model.image_size);
}

LatentSourcePtr open_fitting(const std::vector<std::filesystem::path>& paths, const DiffusionRun& run,
                             const std::vector<std::string>& classes) {
  LatentSourcePtr latents = open_latents(paths, classes);
  require_fit(*latents, run);
  if (!run.trained_autoencoder.empty() && run.trained_autoencoder != latents->autoencoder())
    log_warning(printable_path(paths.front()) + ": these latents were made by another autoencoder (" +
                latents->autoencoder() + ") than those that the model was trained on (" +
                run.trained_autoencoder + ")");
  return latents;
}

void open_latent_data(DiffusionData& data, const DiffusionRun& run, DataUse use) {
  std::vector<std::string> names = given_names(given_classes(run));
  const bool trains = use == DataUse::kTraining;
  if ((trains || names.empty()) && !run.data.train.empty()) {
    data.train.latents = open_fitting(run.data.train, run, names);
    names = data.train.latents->class_names();
    if (trains) data.contents.emplace_back("data.train", data.train.latents->describe_contents());
    if (trains) data.latents_of = data.train.latents->autoencoder();
  }
  if (!run.data.validation.empty()) {
    const LatentSourcePtr held_out = open_fitting(run.data.validation, run, names);
    if (data.train.latents != nullptr && data.train.latents->autoencoder() != held_out->autoencoder())
      throw DataError(error_message("data.validation", "autoencoder",
                                    data.train.latents->autoencoder() + ", as that of data.train",
                                    held_out->autoencoder(), "make both by one autoencoder"));
    names = held_out->class_names();
    data.contents.emplace_back("data.validation", held_out->describe_contents());
    data.validation = held_out_starts(held_out);
  }
  data.class_names = std::move(names);
  if (!trains) data.train = {};
}

void open_picture_data(DiffusionData& data, const RunConfig& run, DataUse use) {
  const DiffusionRun& own = diffusion_run(run);
  require_pixels(own, own.data.train);
  ImageSources sources = open_image_sources(own.settled_data(), run.random_seed(), use,
                                            given_names(given_classes(own)), own.model.classes);
  data.class_names = (sources.train != nullptr ? sources.train : sources.validation)->class_names();
  data.train.pictures = std::move(sources.train);
  if (sources.validation != nullptr)
    data.validation = held_out_starts(std::move(sources.validation), held_out_view(own));
  data.contents = std::move(sources.contents);
}

SampleOrder sample_order(const DiffusionData& data, const RunConfig& run) {
  return {data.train.get()->size(), run.train.batch_size * run.train.accumulate, run.random_seed(), {}};
}

/// The autoencoder that decodes what the run draws. Says so where none is drawn.
std::shared_ptr<const Autoencoder> decoder_of(const RunConfig& run, DiffusionData& data) {
  const DiffusionRun& own = diffusion_run(run);
  if (own.sample.pictures == 0 || data.train.latents == nullptr) return nullptr;
  if (!own.sample.decodes()) {
    log_info(
        "sample: no pictures are drawn during the training: sample.autoencoder names none that decodes "
        "latents");
    return nullptr;
  }
  LoadedAutoencoder loaded =
      load_decoder("sample.autoencoder", own.sample.autoencoder, own.model.channels, run.device);
  data.shared_only.emplace_back("sample.autoencoder", "hash " + loaded.hash);
  if (loaded.hash != data.train.latents->autoencoder())
    log_warning("sample: the latents were made by another autoencoder than the one that decodes them: " +
                data.train.latents->autoencoder() + ", not " + loaded.hash);
  return std::move(loaded.model);
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
  return {data.train.pictures,     augmentation,      {.mixing = {}, .label_smoothing = 0},
          sample_order(data, run), run.random_seed(), own.data.on_error,
          data.broken_in_training};
}

}  // namespace

std::shared_ptr<const DiffusionData> open_diffusion_data(const RunConfig& run, DataUse use) {
  if (use == DataUse::kSynthetic) return synthetic_data(run);
  const DiffusionRun& own = diffusion_run(run);
  auto data = std::make_shared<DiffusionData>();
  if (use == DataUse::kEvaluation && own.data.validation.empty() && !is_of_pixels(own))
    refuse_without_held_out();
  if (are_latents(own.data.train) || are_latents(own.data.validation)) {
    open_latent_data(*data, own, use);
  } else {
    open_picture_data(*data, run, use);
  }
  check_class_names(data->class_names, given_classes(own));
  if (use == DataUse::kTraining) {
    data->autoencoder = decoder_of(run, *data);
    if (is_of_pixels(own) || data->autoencoder != nullptr) note_unguided_samples(own);
  }
  return data;
}

std::unique_ptr<TrainingStarts> training_starts(const DiffusionData& data, const RunConfig& run) {
  if (data.train.latents == nullptr) return starts_of(training_pictures(data, run));
  const DiffusionRun& own = diffusion_run(run);
  return starts_of(data.train.latents, sample_order(data, run),
                   {.flip = own.diffusion.flip,
                    .seed = run.random_seed(),
                    .on_error = own.data.on_error,
                    .broken = data.broken_in_training});
}

HeldOutStartsPtr open_held_out(const DiffusionRun& run, const std::vector<std::string>& paths) {
  const std::vector<std::filesystem::path> files(paths.begin(), paths.end());
  if (are_latents(files)) return held_out_starts(open_fitting(files, run, {}));
  require_pixels(run, files);
  return held_out_starts(open_pictures(paths, {}, run.model.classes), held_out_view(run));
}

std::vector<std::string> class_names_of(const DiffusionRun& run) {
  return class_names_of(given_classes(run));
}

}  // namespace moh
