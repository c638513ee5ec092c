#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "models/layers/attention_gate.h"
#include "train/trainer/config/family_config.h"

namespace moh {

/// The part of a run's configuration that a family with presets and routed heads defines, as far as all of
/// these families have it. `ModelConfig`, a copyable struct, has the members `moh`, `recompute` and
/// `attention_gate`. `Derived` has
///   static constexpr std::string_view kTask;                                   // the value of `task:`
///   static void add_model_fields(ModelConfig& model, config::Section& section);  // all except `preset`
///   static ModelConfig model_of_preset(std::string_view name);                 // for one of presets()
///   static ModelConfig normal_form(ModelConfig model);  // the same for models that compute the same
template <class Derived, class ModelConfig>
struct FamilyRun : CloneableFamilyConfig<Derived> {
  static constexpr std::string_view kNoPreset = "none";

  std::string preset{kNoPreset};
  ModelConfig model;

  /// The family's part of a run. Throws ConfigError for a run of another task.
  static const Derived& of(const FamilyConfig& family) {
    if (const auto* run = dynamic_cast<const Derived*>(&family)) return *run;
    throw ConfigError(error_message("task", "", Derived::kTask, family.task()));
  }

  std::string_view task() const override { return Derived::kTask; }
  void begin_with_preset(std::string_view name) override {
    preset = name;
    model = Derived::model_of_preset(name);
  }
  void begin_with_model_of(const FamilyConfig& checkpoint) override { model = of(checkpoint).model; }
  std::vector<config::Difference> disagreements(const FamilyConfig& checkpoint) const override {
    ModelConfig theirs = of(checkpoint).model, ours = model;
    theirs.moh = ours.moh = {};  // differs freely, and its lists may still be too short for their normal form
    if (theirs.attention_gate == AttentionGate::kNone) theirs.attention_gate = ours.attention_gate;  // added
    if constexpr (requires { theirs.lora; })
      if (!theirs.lora.used()) theirs.lora = ours.lora;  // likewise
    return differences(std::move(theirs), std::move(ours), config::FieldProperty::kDiffersFreely);
  }
  std::vector<config::Difference> other_results(const FamilyConfig& other) const override {
    return differences(of(other).model, model, config::FieldProperty::kOfTraining);
  }
  MohConfig* moh() override { return &model.moh; }
  RecomputeLevel* recompute() override { return &model.recompute; }

 protected:
  /// The section `model`.
  config::Section model_section(std::string_view doc) {
    config::Section section("model", doc);
    std::vector<std::string> names = this->presets();
    names.emplace(names.begin(), kNoPreset);
    section
        .field("preset", config::choice_of(preset, std::move(names)),
               "A published model that sets all keys of this section; keys that are given, in any file, "
               "override it.")
        .differs_freely()
        .optional_with_weights();
    Derived::add_model_fields(model, section);
    return section;
  }

 private:
  /// The differences between two models by key, except keys that have the property.
  static std::vector<config::Difference> differences(ModelConfig expected, ModelConfig found,
                                                     config::FieldProperty except) {
    expected = Derived::normal_form(std::move(expected));
    found = Derived::normal_form(std::move(found));
    config::Section expected_fields("model", ""), found_fields("model", "");
    Derived::add_model_fields(expected, expected_fields);
    Derived::add_model_fields(found, found_fields);
    return config::differences(expected_fields, found_fields, except);
  }
};

}  // namespace moh
