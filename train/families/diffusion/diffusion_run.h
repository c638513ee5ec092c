#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/diffusion/dit_config.h"
#include "train/families/diffusion/diffusion_config.h"
#include "train/families/diffusion/sampling/sample_options.h"
#include "train/families/images/image_data_config.h"
#include "train/trainer/config/family_run.h"
#include "train/trainer/task/trained_identity.h"

namespace moh {

struct RunConfig;

/// Under which a checkpoint keeps the hash of the autoencoder that made its latents (Task::identity).
inline constexpr std::string_view kAutoencoderHash = "autoencoder";

/// The pictures that a run draws after each evaluation: the section `sample`.
struct TrainingSamples {
  static constexpr std::string_view kNoAutoencoder = "none";

  std::int64_t pictures = 16;                         ///< 0: none
  std::filesystem::path autoencoder{kNoAutoencoder};  ///< a folder, for a model of latents
  bool decodes() const { return autoencoder != kNoAutoencoder; }
  SampleOptions options{.steps = "50", .reverse = {.kind = SamplerKind::kAuto}};
};

/// The part of a run's configuration that `task: diffusion` defines.
struct DiffusionRun final : FamilyRun<DiffusionRun, DitConfig>, KeepsIdentity {
  static constexpr std::string_view kTask = "diffusion";

  ImageDataConfig data;
  DiffusionConfig diffusion;
  TrainingSamples sample;
  /// Class names of a checkpoint's training, in the order of labels; empty: those of data.class_names or of
  /// the pictures.
  std::vector<std::string> class_names;
  /// Hash of the autoencoder that made the latents of a checkpoint's training; empty: not known.
  std::string trained_autoencoder;
  EvaluationBound evaluated;  ///< eval.max_pictures

  /// The options of the pictures that the run draws, for what its model predicts.
  SampleOptions preview_options() const;
  /// The section `data` for pictures of the model's size.
  ImageDataConfig settled_data() const;

  static void add_model_fields(DitConfig& model, config::Section& section);
  static DitConfig model_of_preset(std::string_view name);
  static DitConfig normal_form(DitConfig model);

  std::string_view folder() const override { return "dit"; }
  void describe(config::Section& root) override;
  void check(const RunConfig& run, config::Rules& rules) const override;
  void require_data(config::Rules& rules) const override;
  bool has_epochs() const override { return true; }
  std::vector<std::string> presets() const override;
  void remember(std::span<const std::pair<std::string, std::string>> identity) override;
  TrainedIdentity identity() const override;
  std::vector<std::string> evaluation_settings(const std::string& path) const override {
    return {"data.validation=" + path, "eval.max_pictures=0"};
  }
  PerLayer heads() const override { return model.heads; }
  EvaluationWork evaluation_work() const override;
};

/// The part of a run's configuration that the family defines. Throws ConfigError for a run of another task.
const DiffusionRun& diffusion_run(const FamilyConfig& family);
const DiffusionRun& diffusion_run(const RunConfig& run);

}  // namespace moh
