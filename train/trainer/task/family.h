#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/model.h"
#include "train/trainer/config/family_config.h"
#include "train/trainer/task/analysis_inputs.h"
#include "train/trainer/task/calibration.h"
#include "train/trainer/task/predictor.h"
#include "train/trainer/task/task.h"
#include "train/trainer/task/weight_names.h"

namespace moh {

/// The opened data of a run, from which a family makes tasks.
class TaskData {
 public:
  virtual ~TaskData() = default;

  /// (configuration key, description) pairs of what was opened: equal for equal contents, wherever they lie.
  /// Processes of a run compare them, and so does a run that is resumed (Task::data_contents).
  std::vector<std::pair<std::string, std::string>> contents;
  /// Such pairs of what a resumed run may change, and processes of one run may not: what looks at the model.
  std::vector<std::pair<std::string, std::string>> shared_only;
};

/// The purpose for which a command opens a run's data, which determines what is opened.
enum class DataUse {
  kTraining,    ///< all of it
  kEvaluation,  ///< held-out data; training data only if the former are split off from it
  kSynthetic,   ///< nothing: synthetic data of the same sizes, for measurements
};

/// One family of models: its configuration, names of weights, data and tasks. Commands use models only
/// through this interface and Task. A new family is a class and a line in the table (CONTRIBUTING.md).
class Family {
 public:
  virtual ~Family() = default;

  /// The family's part of a run's configuration, with its defaults.
  virtual const FamilyConfig& defaults() const = 0;
  /// How its models are named and described in files of weights.
  virtual const WeightNames& weight_names() const = 0;

  /// Throws DataError, and ConfigError for data that do not fit the model.
  virtual std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const = 0;
  /// A model with uninitialised parameters.
  virtual std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const = 0;
  /// `model` comes from make_model(), `data` from open_data().
  virtual std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                          std::unique_ptr<Model> model) const = 0;
  /// Batches for measurements before a run starts from a checkpoint.
  virtual std::unique_ptr<Calibration> make_calibration(const RunConfig&,
                                                        std::shared_ptr<const TaskData>) const {
    return std::make_unique<Calibration>();
  }
  /// The inputs for an analysis of the heads of a trained model: those of `files`, or without files the run's
  /// held-out data. `model` comes from make_model() and must outlive the result. Throws DataError and
  /// ValueError; ConfigError for a family without such analysis.
  virtual AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                         std::span<const AnalyzedFiles> files,
                                         const AnalyzeOptions& options) const;
  /// Makes the predictor of classes of files with a trained model, which must outlive it. Throws ConfigError
  /// for a family without classes.
  virtual std::unique_ptr<Predictor> make_predictor(const RunConfig& run, const Model& model) const;
};

/// The families of a program.
class Families {
 public:
  /// The families must outlive this object; the first is that of a run without `task`.
  explicit Families(std::vector<const Family*> families);

  std::span<const Family* const> all() const { return families_; }
  /// For reading configurations.
  FamilyConfigs configs() const { return configs_; }
  /// The family of a configuration that was read with configs().
  const Family& of(const FamilyConfig& config) const;
  const Family& of(const RunConfig& run) const;

 private:
  std::vector<const Family*> families_;
  std::vector<const FamilyConfig*> configs_;
};

}  // namespace moh
