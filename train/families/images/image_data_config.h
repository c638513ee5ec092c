#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/config/fields.h"
#include "train/config/problems.h"
#include "train/families/images/data/picture_batch.h"
#include "train/trainer/task/data/evaluation_bound.h"
#include "train/trainer/task/family.h"

namespace moh {

std::span<const std::string_view> names_of(Filter);
std::span<const std::string_view> names_of(EvaluationCrop);

/// Pictures of a run with images: the section `data`.
struct ImageDataConfig {
  std::vector<std::filesystem::path> train, validation;
  std::vector<std::filesystem::path> class_names;  ///< files with a name a line; empty: those of the pictures
  std::int64_t drawn = 0;                          ///< pictures of shapes to draw in place of files
  std::int64_t drawn_validation = 0;               ///< likewise, held out
  std::int64_t drawn_side = 0;                     ///< pixels of their sides, settled; 0: eval_resize
  std::int64_t image_size = 0;                     ///< 0: that of the model
  std::int64_t eval_resize = 0;                    ///< 0: image_size / eval_share, rounded down
  double eval_share = 0.875;                       ///< timm's crop_pct
  EvaluationCrop eval_crop = EvaluationCrop::kCenter;
  ChannelStatistics normalize;
  Filter interpolation = Filter::kBicubic;
  OnError on_error = OnError::kStop;
  std::int64_t workers = 0;  ///< 0: a thread for each of `threads`
  SampleOrderOptions order;
};

/// The configuration with image_size and eval_resize in numbers, for a model of images of `model_size`
/// pixels. Without eval_resize it is image_size / eval_share, rounded down, as timm and DeiT have it.
ImageDataConfig settled(ImageDataConfig config, std::int64_t model_size);

/// Takes over the settings that weights were trained with, which a run that starts from them keeps unless it
/// sets others: the statistics of channels, and how a picture becomes one of image_size.
void take_view_of(const ImageDataConfig& from, ImageDataConfig& to);

/// Augmentation of training pictures: the section `augment`. The defaults are the paper's recipe, except for
/// repeated augmentation.
struct AugmentConfig {
  RandomCrop crop;
  double flip = 0.5;
  std::string rand_augment = "rand-m9-mstd0.5-inc1";  ///< or "none"
  ColorJitter color_jitter;                           ///< zeros: none
  RandomErasing erasing;
  Mixing mixing;
  double label_smoothing = 0.1;
};

/// The sections, for ImageRun::describe().
config::Section image_data_section(ImageDataConfig& config);
config::Section augment_section(AugmentConfig& config);

/// The key eval.max_pictures, for the description of a run with held-out pictures.
void describe_evaluated(EvaluationBound& bound, config::Section& root);
/// EvaluationWork::held_out of such a run.
std::optional<std::int64_t> held_out_work(const ImageDataConfig& data, const EvaluationBound& bound);

/// Rules between the fields, settled, of a run whose steps have `step_samples`.
void check(const ImageDataConfig& data, const AugmentConfig& augment, std::int64_t step_samples,
           config::Rules& rules);

Augmentation augmentation_of(const ImageDataConfig& data, const AugmentConfig& augment);
TargetOptions target_options_of(const AugmentConfig& augment);
EvaluationView evaluation_view_of(const ImageDataConfig& data);

/// The pictures of a run.
struct ImageSources {
  PictureSourcePtr train;       ///< null for DataUse::kEvaluation
  PictureSourcePtr validation;  ///< null if nothing is held out
  /// (key, PictureSource::describe_contents) of what was opened.
  std::vector<std::pair<std::string, std::string>> contents;
};

/// Throws DataError, where an evaluation has nothing to evaluate on.
[[noreturn]] void refuse_without_held_out();

/// Opens what `use`, which is not kSynthetic, needs. Held-out pictures have the labels of the classes of the
/// training pictures, which are listed for that; `classes`, if not empty, are their names, and spare it.
/// `model_classes` is the model's number of classes, 0 if unknown, as for open_pictures(). Throws DataError.
ImageSources open_image_sources(const ImageDataConfig& config, std::uint64_t seed, DataUse use,
                                const std::vector<std::string>& classes = {}, std::int64_t model_classes = 0);

}  // namespace moh
