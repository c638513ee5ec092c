#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/layers/moh_config.h"
#include "models/recompute_level.h"
#include "train/config/write_fields.h"

namespace moh {

struct RunConfig;
namespace config {
class Rules;
}

/// What one model family adds to a run's configuration: its sections, `model` and `data` among them, and what
/// may stand there. A RunConfig owns one; the table of families (train/tasks/family.h) makes it.
class FamilyConfig {
 public:
  virtual ~FamilyConfig() = default;

  /// The value of `task:`.
  virtual std::string_view task() const = 0;
  virtual std::unique_ptr<FamilyConfig> clone() const = 0;
  /// Adds its sections, and its fields of sections that all runs have (Section::section_named).
  virtual void describe(config::Section& root) = 0;
  /// Rules between fields. The bounds of single fields hold already.
  virtual void check(const RunConfig& run, config::Rules& rules) const = 0;
  /// Refuses a run without data, for commands that need some.
  virtual void require_data(config::Rules&) const {}

  /// The values of `model.preset`, where the family has published models.
  virtual std::vector<std::string> presets() const { return {}; }
  /// Makes `model` one of them.
  virtual void begin_with_preset(std::string_view) {}
  /// Makes `model`, but for the preset's name, that of a checkpoint of the same family.
  virtual void begin_with_model_of(const FamilyConfig& checkpoint) = 0;
  /// Where the run differs from the checkpoint that it begins from in what the checkpoint decides.
  virtual std::vector<config::Difference> disagreements(const FamilyConfig&) const { return {}; }

  /// Where `model` would compute something else than another one from the same weights, or its inputs stand
  /// for something else. "expected" is what the other one has.
  virtual std::vector<config::Difference> other_results(const FamilyConfig& /*other*/) const { return {}; }
  /// Keys on which results depend and which names and shapes of weights do not show.
  virtual std::span<const std::string_view> unseen_in_weights() const { return {}; }
  /// Keys of `model`, and sections of it (with a dot at the end), that a run may leave out which begins from
  /// weights that nothing describes: those that the shapes of the weights would contradict, and those that
  /// concern training.
  virtual std::span<const std::string_view> optional_model_keys() const { return {}; }

  /// The routing of the model's heads; null for a family without attention.
  virtual MohConfig* moh() { return nullptr; }
  const MohConfig* moh() const { return const_cast<FamilyConfig*>(this)->moh(); }
  /// Heads of each layer, of which moh() has counts.
  virtual std::int64_t heads() const { return 0; }
  /// model.recompute; null for a family that keeps everything.
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

/// The defaults of each family that a program knows, the one of a run without `task` first.
using FamilyConfigs = std::span<const FamilyConfig* const>;

}  // namespace moh
