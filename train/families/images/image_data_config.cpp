#include "train/families/images/image_data_config.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "train/families/images/data/made_pictures.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

using config::above;
using config::above_up_to;
using config::at_least;
using config::Bounds;
using config::from_below;
using config::from_up_to;
using config::Rules;
using config::Section;

constexpr std::string_view kFilterNames[] = {"box", "bilinear", "bicubic"};
constexpr std::string_view kCropNames[] = {"center", "squash", "original"};
constexpr std::string_view kNone = "none";
constexpr double kMaxDataSide = 1 << 14, kMaxPictures = 1 << 30;

Bounds share() {
  return {.low = 0, .high = 1};
}

std::vector<std::string> as_strings(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

void refuse_reversed(Rules& rules, const char* key, const std::array<double, 2>& range) {
  if (range[0] <= range[1]) return;
  rules.refuse({key}, "the smaller number first", std::to_string(range[0]) + ", " + std::to_string(range[1]));
}

/// Held-out shapes are others: of another seed.
constexpr std::uint64_t kHeldOut = std::uint64_t{1} << 63;

PictureSourcePtr open_or_draw(const std::vector<std::filesystem::path>& paths, std::int64_t drawn, int side,
                              std::uint64_t seed, const std::vector<std::string>& classes,
                              std::int64_t model_classes) {
  if (!paths.empty()) return open_pictures(as_strings(paths), classes, model_classes);
  return drawn > 0 ? shape_pictures(drawn, side, seed) : nullptr;
}

}  // namespace

std::span<const std::string_view> names_of(Filter) {
  return kFilterNames;
}

std::span<const std::string_view> names_of(EvaluationCrop) {
  return kCropNames;
}

config::Section image_data_section(ImageDataConfig& c) {
  Section s("data", "Training and validation images.");
  s.field("train", c.train,
          "A folder with a folder of JPEG or PNG files for each class, tar archives (WebDataset) or a folder "
          "of them, "
          "or files of CIFAR-10's binary version.");
  s.field("validation", c.validation, "Held-out images, given likewise. Empty: none.");
  s.field("class_names", c.class_names,
          "A file (or several, one after the other) with the name of a class on each line, in the order of "
          "the labels. Empty: those of the training images, which checkpoints keep.");
  s.field("drawn", c.drawn, at_least(0, "pictures").capped(kMaxPictures),
          "Without `train`: train on this many synthetic images of shapes, of eight classes.");
  s.field("drawn_validation", c.drawn_validation, at_least(0, "pictures").capped(kMaxPictures),
          "Without `validation`: hold out this many drawn images.");
  s.field("image_size", c.image_size, at_least(0, "pixels").capped(kMaxDataSide),
          "Side of the images that the model sees. 0: `model.image_size`.");
  s.field("eval_resize", c.eval_resize, at_least(0, "pixels").capped(kMaxDataSide),
          "In evaluations the shorter side is resized to this, and `image_size` pixels in the middle are "
          "taken. 0: "
          "`image_size` / `eval_share`, rounded down.");
  s.field("eval_share", c.eval_share, from_up_to(0.05, 16),
          "Without `eval_resize`: the share of the shorter side that an evaluation sees, timm's `crop_pct`.");
  s.field("eval_crop", c.eval_crop,
          "In evaluations `center` keeps the shape of an image and cuts off what is too long, `squash` "
          "resizes both sides to `eval_resize`, as timm's `crop_mode` of that name; `original` resizes "
          "nothing, as MoH-ViT's code up to 32 pixels: images have to be of `image_size`.");
  s.field("mean", c.normalize.mean, from_up_to(0, 1),
          "Mean of red, green and blue, of values from 0 to 1, with which images are normalised. A run with "
          "`init.from` begins with that of its checkpoint, as with `std`, `interpolation`, `eval_share` and "
          "`eval_crop`.");
  s.field("std", c.normalize.std, above(0), "Standard deviation of red, green and blue, likewise.");
  s.field("interpolation", c.interpolation, "Filter of the resizing, as Pillow's of that name.");
  s.field("on_error", c.on_error,
          "At a broken image: `stop` with its name, or `skip` it, take the next one in its place and report "
          "it at the end.");
  s.field("workers", c.workers, at_least(0).capped(1024),
          "Threads that make batches ahead of their use; they change no result. 0: as many as `threads`.");
  s.field("repeats", c.order.repeats, at_least(1).capped(64),
          "Repeated augmentation: views of each image in an epoch, which then has as many images fewer.");
  s.field("groups", c.order.groups, at_least(1).capped(4096),
          "Parts of a step with an order and a mixing of their own, as on this many ranks of DeiT's and the "
          "paper's code.");
  return s;
}

config::Section augment_section(AugmentConfig& c) {
  Section s("augment", "Changes of a training image, in this order.");
  s.field("crop_scale", c.crop.scale, above_up_to(0, 1),
          "Random crop: bounds of its share of the image's area.");
  s.field("crop_ratio", c.crop.ratio, above(0), "Random crop: bounds of its width / height.");
  s.field("flip", c.flip, share(), "Probability that left and right are exchanged.");
  s.field("rand_augment", c.rand_augment, "RandAugment as timm writes it, with `inc1`; or `none`.");
  s.field("brightness", c.color_jitter.brightness, at_least(0),
          "Colour jitter: factors are from 1 - x to 1 + x. 0: none.");
  s.field("contrast", c.color_jitter.contrast, at_least(0), "Likewise.");
  s.field("saturation", c.color_jitter.saturation, at_least(0), "Likewise.");
  s.field("hue", c.color_jitter.hue, from_up_to(0, 0.5),
          "Colour jitter: hues turn by up to this share of the colour wheel.");
  s.field("erasing", c.erasing.probability, share(), "Probability that a box of the image becomes noise.");
  s.field("mixing", c.mixing.probability, share(), "Probability that the images of a group are mixed.");
  s.field("mixup_alpha", c.mixing.mixup_alpha, at_least(0),
          "Mixup: the share of an image is drawn from Beta(x, x). 0: no Mixup.");
  s.field("cutmix_alpha", c.mixing.cutmix_alpha, at_least(0), "CutMix, likewise.");
  s.field("cutmix_share", c.mixing.cutmix_share, share(), "Share of CutMix where both are on.");
  s.field("label_smoothing", c.label_smoothing, from_below(0, 1),
          "Probability that the target spreads over all classes.");
  return s;
}

void describe_evaluated(EvaluationBound& bound, config::Section& root) {
  root.section_named("eval").field(
      "max_pictures", bound.given, at_least(0, "pictures").capped(config::kMostEvaluated),
      "Evaluate on this many held-out images, which are spread evenly over all, the same in every run. 0: on "
      "all. Not given: on 10000 during the training, and on all in `moh eval`.");
}

std::optional<std::int64_t> held_out_work(const ImageDataConfig& data, const EvaluationBound& bound) {
  const std::optional<std::int64_t> most = bound.most_in_training(kUsualEvaluatedPictures);
  if (!data.validation.empty()) return most;
  return std::min(data.drawn_validation, most.value_or(data.drawn_validation));
}

ImageDataConfig settled(ImageDataConfig config, std::int64_t model_size) {
  if (config.image_size == 0) config.image_size = model_size;
  const double shorter = static_cast<double>(config.image_size) / config.eval_share;
  // Drawn pictures have the size of earlier versions, so that runs on them can be resumed.
  config.drawn_side = config.eval_resize > 0 ? config.eval_resize : std::llround(shorter);
  // Rounded down, as timm, DeiT and MoH-ViT do.
  if (config.eval_resize == 0) config.eval_resize = static_cast<std::int64_t>(std::floor(shorter));
  return config;
}

void take_view_of(const ImageDataConfig& from, ImageDataConfig& to) {
  to.normalize = from.normalize;
  to.interpolation = from.interpolation;
  to.eval_share = from.eval_share;
  to.eval_crop = from.eval_crop;
}

void check(const ImageDataConfig& data, const AugmentConfig& augment, std::int64_t step_samples,
           Rules& rules) {
  if (step_samples % data.order.groups != 0) {
    rules.refuse({"data.groups", "train.batch_size", "train.accumulate"},
                 "a divisor of train.batch_size * train.accumulate (" + std::to_string(step_samples) + ")",
                 std::to_string(data.order.groups));
  }
  refuse_reversed(rules, "augment.crop_scale", augment.crop.scale);
  refuse_reversed(rules, "augment.crop_ratio", augment.crop.ratio);
  if (augment.rand_augment == kNone) return;
  try {
    RandAugment::parse(augment.rand_augment);
  } catch (const ValueError&) {
    rules.refuse(
        {"augment.rand_augment"},
        "none, or timm's text rand-mM-nN-mstdS-pP-inc1, such as rand-m9-mstd0.5-inc1: magnitude M (0 "
        "to 10), N operations a picture (2), deviation S of the magnitude (0), probability P of each "
        "(0.5)",
        augment.rand_augment, "begin with rand and end with inc1; the parts between may be left out");
  }
}

Augmentation augmentation_of(const ImageDataConfig& data, const AugmentConfig& augment) {
  Augmentation result;
  result.size = static_cast<int>(data.image_size);
  result.filter = data.interpolation;
  result.normalize = data.normalize;
  result.crop = augment.crop;
  result.flip = augment.flip;
  result.rand_augment.reset();
  if (augment.rand_augment != kNone) result.rand_augment = RandAugment::parse(augment.rand_augment);
  const ColorJitter& jitter = augment.color_jitter;
  if (std::max({jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue}) > 0)
    result.color_jitter = jitter;
  result.erasing.reset();
  if (augment.erasing.probability > 0) result.erasing = augment.erasing;
  return result;
}

TargetOptions target_options_of(const AugmentConfig& augment) {
  return {.mixing = augment.mixing, .label_smoothing = augment.label_smoothing};
}

EvaluationView evaluation_view_of(const ImageDataConfig& data) {
  return {.short_side = static_cast<int>(data.eval_resize),
          .crop = static_cast<int>(data.image_size),
          .filter = data.interpolation,
          .mode = data.eval_crop,
          .normalize = data.normalize};
}

void refuse_without_held_out() {
  throw DataError(
      "data: the configuration of this model names no held-out pictures; name them with data=PATH");
}

ImageSources open_image_sources(const ImageDataConfig& config, std::uint64_t seed, DataUse use,
                                const std::vector<std::string>& classes, std::int64_t model_classes) {
  MOH_CHECK(use != DataUse::kSynthetic, "open_image_sources: synthetic data need no files");
  ImageSources sources;
  const int side = static_cast<int>(config.drawn_side > 0 ? config.drawn_side : config.eval_resize);
  const auto note = [&](const char* key, const PictureSource& source) {
    sources.contents.emplace_back(key, source.describe_contents());
  };
  std::vector<std::string> names = classes;
  if (use == DataUse::kTraining || names.empty()) {
    sources.train = open_or_draw(config.train, config.drawn, side, seed, classes, model_classes);
    if (sources.train != nullptr) names = sources.train->class_names();
  }
  sources.validation =
      open_or_draw(config.validation, config.drawn_validation, side, seed ^ kHeldOut, names, model_classes);
  if (use == DataUse::kEvaluation) {
    sources.train = nullptr;
    if (sources.validation == nullptr) refuse_without_held_out();
  }
  if (use != DataUse::kTraining) return sources;
  if (sources.train != nullptr) note("data.train", *sources.train);
  if (sources.validation != nullptr) note("data.validation", *sources.validation);
  return sources;
}

}  // namespace moh
