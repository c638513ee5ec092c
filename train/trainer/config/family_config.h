#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/function_ref.h"
#include "models/layers/moh_config.h"
#include "models/recompute_level.h"
#include "train/config/write_fields.h"

namespace moh {

struct LoraConfig;
struct RunConfig;
namespace config {
class Rules;
}

/// Forward passes of an evaluation of a run, as far as its configuration tells, in items (tokens, images).
struct EvaluationWork {
  /// Items of held-out data, at most: eval.max_tokens, eval.max_pictures. Nothing: all, and only the data
  /// tell how many.
  std::optional<std::int64_t> held_out = 0;
  std::int64_t samples = 0;  ///< of pictures that the model draws
};

/// The part of a run's configuration that a model family defines: its sections, `model` and `data` among
/// them, and their rules. A RunConfig owns one; the table of families (train/trainer/task/family.h) creates
/// it.
class FamilyConfig {
 public:
  virtual ~FamilyConfig() = default;

  /// The value of `task:`.
  virtual std::string_view task() const = 0;
  /// The folder below `runs` in which its runs are by default, so that those of two families are apart.
  virtual std::string_view folder() const { return task(); }
  virtual std::unique_ptr<FamilyConfig> clone() const = 0;
  /// Adds the family's sections, and its fields in sections of every run (Section::section_named).
  virtual void describe(config::Section& root) = 0;
  /// Checks rules between fields. Bounds of single fields have been checked before.
  virtual void check(const RunConfig& run, config::Rules& rules) const = 0;
  /// Refuses a run without data; called for commands that need data.
  virtual void require_data(config::Rules&) const {}

  /// Whether its data have epochs (Task::steps_per_epoch).
  virtual bool has_epochs() const { return false; }

  /// The values of `model.preset`: published models of the family.
  virtual std::vector<std::string> presets() const { return {}; }
  /// Sets `model` to one of them.
  virtual void begin_with_preset(std::string_view) {}
  /// Sets `model`, except the preset's name, to that of a checkpoint of the same family.
  virtual void begin_with_model_of(const FamilyConfig& checkpoint) = 0;
  /// Sets values that were not given and follow from files that the configuration names, such as the size of
  /// a vocabulary, or from the checkpoint that the run starts from (null: none, or its model is not needed).
  /// Throws for files that cannot be read.
  virtual void follow_files(FunctionRef<bool(std::string_view key)> /*is_given*/,
                            const FamilyConfig* /*checkpoint*/) {}
  /// Takes over what the training of a checkpoint has found out besides its configuration (Task::identity):
  /// names of classes.
  virtual void remember(std::span<const std::pair<std::string, std::string>> /*identity*/) {}
  /// The work of an evaluation during the training.
  virtual EvaluationWork evaluation_work() const { return {}; }
  /// The settings that a path of held-out data stands for, all of which are to be evaluated.
  virtual std::vector<std::string> evaluation_settings(const std::string& path) const {
    return {"data.validation=" + path};
  }
  /// Keys of the run that contradict the checkpoint it starts from, except those that may differ.
  virtual std::vector<config::Difference> disagreements(const FamilyConfig&) const { return {}; }

  /// Keys of `model` by which it would compute different results than `other` from the same weights, or by
  /// which its inputs have another meaning. "expected" is the value of `other`.
  virtual std::vector<config::Difference> other_results(const FamilyConfig& /*other*/) const { return {}; }

  /// The routing of the model's heads; null for a family without attention.
  virtual MohConfig* moh() { return nullptr; }
  const MohConfig* moh() const { return const_cast<FamilyConfig*>(this)->moh(); }
  /// Number of heads of each layer, to which shares in moh() refer: a list has as many numbers as lists of
  /// moh() may have.
  virtual PerLayer heads() const { return 0; }
  /// KV heads of each layer, which groups of its query heads share; 0 for a family without such groups.
  virtual std::int64_t kv_heads() const { return 0; }
  /// model.lora; null for a family without adapters.
  virtual LoraConfig* lora() { return nullptr; }
  const LoraConfig* lora() const { return const_cast<FamilyConfig*>(this)->lora(); }
  /// model.recompute; null for a family without recomputation.
  virtual RecomputeLevel* recompute() { return nullptr; }
};

/// Clones for a family's configuration, which is a plain copyable struct.
template <class Derived>
class CloneableFamilyConfig : public FamilyConfig {
 public:
  std::unique_ptr<FamilyConfig> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
};

/// A FamilyConfig with the semantics of a value.
class FamilyValue {
 public:
  FamilyValue() = default;
  explicit FamilyValue(const FamilyConfig& config) : config_(config.clone()) {}
  FamilyValue(const FamilyValue& other) : config_(other ? other->clone() : nullptr) {}
  FamilyValue(FamilyValue&&) = default;
  FamilyValue& operator=(FamilyValue other) {
    config_ = std::move(other.config_);
    return *this;
  }

  explicit operator bool() const { return config_ != nullptr; }
  FamilyConfig& operator*() { return *config_; }
  const FamilyConfig& operator*() const { return *config_; }
  FamilyConfig* operator->() { return config_.get(); }
  const FamilyConfig* operator->() const { return config_.get(); }

 private:
  std::unique_ptr<FamilyConfig> config_;
};

/// The defaults of each family of a program; the first is that of a run without `task`.
using FamilyConfigs = std::span<const FamilyConfig* const>;

}  // namespace moh
