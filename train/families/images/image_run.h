#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/families/images/class_names.h"
#include "train/families/images/image_data_config.h"
#include "train/families/images/image_model_config.h"
#include "train/trainer/config/family_run.h"
#include "train/trainer/task/trained_identity.h"

namespace moh {

struct RunConfig;

/// The part of a run's configuration that `task: image_classification` defines.
struct ImageRun final : FamilyRun<ImageRun, ImageModelConfig>, KeepsIdentity {
  static constexpr std::string_view kTask = "image_classification";

  ImageDataConfig data;
  AugmentConfig augment;
  /// Class names of a checkpoint's training, in the order of labels; empty: those of data.class_names or of
  /// the pictures.
  std::vector<std::string> class_names;
  /// init.new_head: begin with a classifier of model.classes, whatever classes the checkpoint has.
  bool new_head = false;
  EvaluationBound evaluated;  ///< eval.max_pictures

  /// Whether the configuration itself says what pictures are normalised with.
  bool gives_mean = false, gives_std = false;

  /// The section `data` with sizes in numbers.
  ImageDataConfig settled_data() const { return settled(data, model.image_size); }

  static void add_model_fields(ImageModelConfig& model, config::Section& section) {
    add_fields(model, section);
  }
  static ImageModelConfig model_of_preset(std::string_view name) { return image_preset(name); }
  static ImageModelConfig normal_form(ImageModelConfig model) { return spelt_out(std::move(model)); }

  std::string_view folder() const override { return "vit"; }
  void describe(config::Section& root) override;
  void check(const RunConfig& run, config::Rules& rules) const override;
  void require_data(config::Rules& rules) const override;
  bool has_epochs() const override { return true; }
  std::vector<std::string> presets() const override { return image_presets(); }
  void remember(std::span<const std::pair<std::string, std::string>> identity) override;
  TrainedIdentity identity() const override;
  std::vector<std::string> evaluation_settings(const std::string& path) const override {
    return {"data.validation=" + path, "eval.max_pictures=0"};
  }
  /// Pictures are seen as the checkpoint's were, too (take_view_of).
  void begin_with_model_of(const FamilyConfig& checkpoint) override;
  void follow_files(FunctionRef<bool(std::string_view key)> is_given,
                    const FamilyConfig* checkpoint) override;
  std::vector<config::Difference> disagreements(const FamilyConfig& checkpoint) const override;
  std::vector<config::Difference> other_results(const FamilyConfig& other) const override;
  PerLayer heads() const override { return heads_of(model); }
  EvaluationWork evaluation_work() const override { return {held_out_work(data, evaluated)}; }
};

/// The part of a run's configuration that the family of images defines. Throws ConfigError for a run of
/// another task.
const ImageRun& image_run(const FamilyConfig& family);
const ImageRun& image_run(const RunConfig& run);

}  // namespace moh
