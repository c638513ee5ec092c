#pragma once

#include <memory>
#include <span>
#include <vector>

#include "models/model.h"
#include "train/config/run_config.h"
#include "train/tasks/analysis_inputs.h"
#include "train/tasks/calibration.h"
#include "train/tasks/task.h"
#include "train/weights/weight_names.h"

namespace moh {

/// The data of a run, opened: what a family's tasks are made from.
class TaskData {
 public:
  virtual ~TaskData() = default;
};

/// What a command does with a run's data, and so what is opened of it.
enum class DataUse {
  kTraining,    ///< all of it
  kEvaluation,  ///< held-out data; training data only where these are split off from it
  kSynthetic,   ///< nothing: made-up data of the same sizes, for measurements
};

/// One family of models, from the sections of its YAML to its tasks. The commands reach a model through this
/// interface and Task alone. A new family is a class and a line in the table (CONTRIBUTING.md).
class Family {
 public:
  virtual ~Family() = default;

  /// The family's part of a run's configuration, with its defaults.
  virtual const FamilyConfig& defaults() const = 0;
  /// Its names in files of weights.
  virtual const WeightNames& weight_names() const = 0;

  /// Throws DataError, and ConfigError for data that do not fit the model.
  virtual std::shared_ptr<const TaskData> open_data(const RunConfig& run, DataUse use) const = 0;
  /// A model whose parameters have no content yet.
  virtual std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const = 0;
  /// The model is one of make_model(), the data are of open_data().
  virtual std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData> data,
                                          std::unique_ptr<Model> model) const = 0;
  /// For what is measured before a run begins from a checkpoint.
  virtual std::unique_ptr<Calibration> make_calibration(const RunConfig&,
                                                        std::shared_ptr<const TaskData>) const {
    return std::make_unique<Calibration>();
  }
  /// What an analysis of the heads of a trained model looks at: the inputs of `files`, or those that the run
  /// held out when there are none. The model is one of make_model() and outlives the result. Throws DataError
  /// and ValueError; ConfigError for a family whose models cannot be analysed.
  virtual AnalysisInputs analysis_inputs(const RunConfig& run, const Model& model,
                                         std::span<const AnalyzedFiles> files,
                                         const AnalyzeOptions& options) const;
};

/// The families that a program knows.
class Families {
 public:
  /// They outlive the object; the first is that of a run without `task`.
  explicit Families(std::vector<const Family*> families);

  std::span<const Family* const> all() const { return families_; }
  /// For reading configurations.
  FamilyConfigs configs() const { return configs_; }
  /// The family of a configuration that was read with configs().
  const Family& of(const FamilyConfig& config) const;
  const Family& of(const RunConfig& run) const { return of(*run.family); }

 private:
  std::vector<const Family*> families_;
  std::vector<const FamilyConfig*> configs_;
};

}  // namespace moh
