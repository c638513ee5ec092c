#include "train/apps/cli/picture_features.h"

#include <filesystem>
#include <utility>

#include "core/device.h"
#include "core/error.h"
#include "train/base/formats/numpy_file.h"
#include "train/base/io/printable.h"
#include "train/base/log/progress.h"
#include "train/families/images/classifier_features.h"
#include "train/families/images/data/loose_pictures.h"
#include "train/families/images/image_run.h"
#include "train/families/images/inception_features.h"
#include "train/families/images/inception_weights.h"
#include "train/trainer/task/load_model.h"

namespace moh::cli {

namespace {

class ClassifierMaker final : public FeatureMaker {
 public:
  ClassifierMaker(const std::string& checkpoint, const Families& families, Console& console)
      : FeatureMaker(console), checkpoint_(checkpoint), loaded_(load_model(checkpoint, families)) {
    if (loaded_.family->defaults().task() != ImageRun::kTask)
      throw ConfigError(error_message(
          "--features-from", "", "a classifier of pictures",
          printable_path(checkpoint) + ", of task " + std::string(loaded_.family->defaults().task())));
  }

  std::string describe() const override {
    return "of the classifier " + printable_path(checkpoint_) +
           ", not of Inception: no published number compares";
  }

 private:
  void make(PictureFeatures& features, const PictureSourcePtr& pictures,
            FunctionRef<void(std::int64_t)> done) override {
    ClassifierFeatures made =
        classifier_features(loaded_.config, static_cast<const ImageModel&>(*loaded_.model), pictures, done);
    features.features = std::move(made.features);
    features.probabilities = std::move(made.probabilities);
  }

  std::string checkpoint_;
  LoadedModel loaded_;
};

class InceptionMaker final : public FeatureMaker {
 public:
  InceptionMaker(const FeatureOptions& options, Console& console) : FeatureMaker(console), options_(options) {
    const Device device = parse_device(options.device);
    open_device(device);
    model_ = load_inception(options.inception, {DType::kFloat32, device});
  }

  std::string describe() const override {
    return "of Inception, " + printable_path(options_.inception) + ", resized as by " + options_.resize;
  }

 private:
  void make(PictureFeatures& features, const PictureSourcePtr& pictures,
            FunctionRef<void(std::int64_t)> done) override {
    const PixelCenters centers = options_.resize == "adm" ? PixelCenters::kCorner : PixelCenters::kHalf;
    InceptionFeatures made = inception_features(*model_, pictures, centers, options_.batch_size, done);
    features.features = std::move(made.features);
    features.spatial_features = std::move(made.spatial);
    features.probabilities = std::move(made.probabilities);
  }

  const FeatureOptions& options_;
  std::unique_ptr<Inception> model_;
};

}  // namespace

PictureFeatures FeatureMaker::of(const std::string& path) {
  PictureFeatures features{.name = path};
  if (std::filesystem::path(path).extension() == ".npy") return read_picture_features(path);
  if (std::filesystem::path(path).extension() == ".npz") {
    const NumpyFile file(path);
    const bool has_pictures = file.find("arr_0") != nullptr;
    if (!has_pictures || file.find("mu") != nullptr) features = read_picture_features(path);
    if (!has_pictures) return features;
  }
  const PictureSourcePtr pictures = open_loose_pictures(path);
  StatusLine line(console_);
  make(features, pictures, [&](std::int64_t done) {
    line.update(
        [&] { return describe_progress("features", done, pictures->size(), "pictures", line.elapsed()); });
  });
  return features;
}

std::unique_ptr<FeatureMaker> feature_maker(const FeatureOptions& options, const Families& families,
                                            Console& console) {
  if (!options.inception.empty()) return std::make_unique<InceptionMaker>(options, console);
  if (!options.classifier.empty())
    return std::make_unique<ClassifierMaker>(options.classifier, families, console);
  return nullptr;
}

}  // namespace moh::cli
