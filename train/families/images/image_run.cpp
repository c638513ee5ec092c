#include "train/families/images/image_run.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "train/config/problems.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

using config::Difference;
using config::Section;

constexpr std::string_view kMean = "data.mean", kStd = "data.std";

/// The differences in mean and deviation, by which pictures are normalised.
std::vector<Difference> statistics_differences(ImageDataConfig expected, ImageDataConfig found) {
  std::vector<Difference> differing = differences(image_data_section(expected), image_data_section(found));
  std::erase_if(differing, [](const Difference& d) { return d.key != kMean && d.key != kStd; });
  return differing;
}

}  // namespace

void ImageRun::describe(Section& root) {
  root.section(model_section("The classifier of images, with or without MoH."));
  root.section(image_data_section(data));
  root.section(augment_section(augment));
  describe_evaluated(evaluated, root);
  root.section_named("init").field(
      "new_head", new_head,
      "Begin with a new classifier, of `model.classes` classes; without it a checkpoint with another number "
      "of classes is refused.");
}

void ImageRun::check(const RunConfig& run, config::Rules& rules) const {
  ConfigFaults faults = faults_of(model.architecture);
  moh::check(model, faults);
  rules.refuse(faults);
  const ImageDataConfig settled = settled_data();
  moh::check(settled, augment, run.train.batch_size * run.train.accumulate, rules);
  config::check(evaluated, "eval.max_pictures", rules);
  if (data.eval_crop == EvaluationCrop::kOriginal && data.eval_resize != 0) {
    rules.refuse({"data.eval_resize", "data.eval_crop"}, "0, as data.eval_crop: original resizes nothing",
                 std::to_string(data.eval_resize));
  }
  if (!data.class_names.empty() && data.train.empty() && data.drawn > 0) {
    rules.refuse({"data.class_names", "data.drawn"}, "none for drawn pictures, whose names are known",
                 data.class_names.front().string());
  }
  const std::int64_t patch = model.vit.patch_size;
  const bool vit = model.architecture == ImageArchitecture::kVit;
  if (vit && data.image_size != 0 && data.image_size % patch != 0) {
    rules.refuse({"data.image_size", "model.vit.patch_size"},
                 "a multiple of model.vit.patch_size (" + std::to_string(patch) + ")",
                 std::to_string(data.image_size));
  }
}

void ImageRun::require_data(config::Rules& rules) const {
  if (data.train.empty() && data.drawn == 0) {
    rules.refuse({"data.train"}, "pictures to train on", "no path",
                 "name a folder with a folder of pictures for each class: data.train=pictures");
  }
}

void ImageRun::remember(std::span<const std::pair<std::string, std::string>> identity) {
  class_names = class_names_in(identity, class_names);
}

TrainedIdentity ImageRun::identity() const {
  return class_names.empty() ? TrainedIdentity() : TrainedIdentity{identity_of(class_names)};
}

void ImageRun::begin_with_model_of(const FamilyConfig& checkpoint) {
  FamilyRun::begin_with_model_of(checkpoint);
  take_view_of(image_run(checkpoint).data, data);
}

void ImageRun::follow_files(FunctionRef<bool(std::string_view key)> is_given, const FamilyConfig*) {
  gives_mean = is_given(kMean);
  gives_std = is_given(kStd);
}

std::vector<Difference> ImageRun::disagreements(const FamilyConfig& checkpoint) const {
  std::vector<Difference> found = FamilyRun::disagreements(checkpoint);
  if (new_head) std::erase_if(found, [](const Difference& d) { return d.key == "model.classes"; });
  for (Difference& d : found) {
    if (d.key == "model.classes") d.fix = "init.new_head: true trains a new classifier";
  }
  for (Difference& d : statistics_differences(image_run(checkpoint).data, data)) {
    if (d.key == kMean ? gives_mean : gives_std) continue;
    d.fix = "give the key: as in the checkpoint, or others to train for";
    found.push_back(std::move(d));
  }
  return found;
}

std::vector<Difference> ImageRun::other_results(const FamilyConfig& other) const {
  std::vector<Difference> found = FamilyRun::other_results(other);
  std::ranges::move(statistics_differences(image_run(other).data, data), std::back_inserter(found));
  return found;
}

const ImageRun& image_run(const FamilyConfig& family) {
  return ImageRun::of(family);
}

const ImageRun& image_run(const RunConfig& run) {
  return image_run(*run.family);
}

}  // namespace moh
