#include "train/config/load_run_config.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "train/config/init_rules.h"
#include "train/config/layers.h"
#include "train/config/read_fields.h"
#include "train/config/reference.h"
#include "train/config/rules.h"
#include "train/config/run_fields.h"
#include "train/config/run_rules.h"
#include "train/config/write_fields.h"

namespace moh {

namespace {

using config::GivenKeys;
using config::Layers;
using config::Problems;
using config::Section;

GivenKeys read_layers(const Layers& layers, const ModelPresets& presets, RunConfig& run, Problems& problems) {
  const Section fields = config::describe(run, presets.names);
  GivenKeys given;
  for (const config::Value& root : layers.roots) config::read_fields(fields, root, given, problems);
  return given;
}

/// The preset that the layers name, wherever they do. It has to be known before any other key is read, since
/// those override it: hence a reading of its own, whose problems the real one finds again.
ModelConfig starting_model(const Layers& layers, const ModelPresets& presets) {
  RunConfig run;
  Problems ignored;
  read_layers(layers, presets, run, ignored);
  if (run.model.preset == ModelConfig::kNoPreset) return {};
  ModelConfig model = presets.get(run.model.preset);
  model.preset = run.model.preset;
  return model;
}

/// Whether every key of `model` was given, but those of its routing, which a checkpoint need not have.
bool gives_every_size(RunConfig& run, const GivenKeys& given) {
  const auto all_given = [&](auto&& self, const Section& section, const std::string& prefix) -> bool {
    for (const config::Field& field : section.fields()) {
      if (!given.places.contains(config::join_key(prefix, field.name))) return false;
    }
    return std::ranges::all_of(section.sections(), [&](const Section& child) {
      return child.name() == "moh" || self(self, child, config::join_key(prefix, child.name()));
    });
  };
  return all_given(all_given, config::describe(run.model, {}), "model");
}

/// The model of the checkpoint that the run begins with, where it must be asked.
std::optional<ModelConfig> model_of_source(RunConfig& run, const GivenKeys& given,
                                           const ModelPresets& presets) {
  if (run.init.from.empty() || !presets.of_source) return std::nullopt;
  std::optional<ModelConfig> model = presets.of_source(run, gives_every_size(run, given));
  if (model) model->preset = run.model.preset;
  return model;
}

/// gate_scaling alone speaks for the balance loss, too: so it was before that had a key of its own, and so
/// the configurations of older runs mean it.
void settle_balance_loss(HeadMixtureConfig& moh, const GivenKeys& given) {
  if (given.places.contains("model.moh.balance_loss") || !given.places.contains("model.moh.gate_scaling"))
    return;
  moh.balance_loss = moh.gate_scaling == GateScalingChoice::kPaper ? BalanceLoss::kPaper : BalanceLoss::kCode;
}

}  // namespace

RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          const ModelPresets& presets) {
  Layers layers;
  Problems problems;
  config::load_layers(path, overrides, layers, problems);

  RunConfig run;
  run.output.dir = std::filesystem::path("runs") / std::filesystem::path(path).stem();
  run.model = starting_model(layers, presets);
  const GivenKeys given = read_layers(layers, presets, run, problems);
  if (layers.complete) {  // otherwise keys that were not reached would look forgotten
    std::optional<ModelConfig> source;
    if (problems.empty()) source = model_of_source(run, given, presets);
    if (source) {
      run.model = *source;
      read_layers(layers, presets, run, problems);
    }
    config::Rules rules(given, {&layers.sources.front()}, "model.preset", problems);
    config::settle_init(run, source, given, rules);
    settle_balance_loss(run.model.moh, given);
    config::check(run, rules);
  }
  problems.throw_if_any();
  return run;
}

std::string print_resolved(const RunConfig& run) {
  RunConfig copy = run;  // a field list points into what it may also be read into
  return config::section_yaml(config::describe(copy, {}));
}

std::string print_reference(const ModelPresets& presets) {
  RunConfig defaults;
  return config::reference_markdown(config::describe(defaults, presets.names));
}

}  // namespace moh
