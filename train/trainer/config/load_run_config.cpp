#include "train/trainer/config/load_run_config.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/config/number_text.h"
#include "train/config/problems.h"
#include "train/config/write_fields.h"
#include "train/trainer/config/active_heads.h"
#include "train/trainer/config/constant_keys.h"
#include "train/trainer/config/run_rules.h"

namespace moh {

namespace {

constexpr std::string_view kReferencePreface = R"(# Configuration

<!-- Made by `moh config --reference > docs/config.md` from the field lists in train/config/. Do not edit. -->

A run is described by one YAML file. Every key has a default, except `data.train`. `moh config FILE` prints the resolved
configuration, with all defaults and includes, as YAML that can be used in place of the file.

    moh train configs/llm/quickstart.yaml train.steps=200 model.moh.num_shared=[1,1,2,2]

- **Overrides.** `key.path=value` after the file replaces single keys; of two for the same key the last one counts. A value
  that begins with `[`, `{`, `'` or `"` is YAML; any other is used literally.
- **Includes.** `include: base.yaml`, or a list of files, at the top level of a file and relative to it. Keys of the
  file replace those of the files that it includes; a list is replaced as a whole.
- **Paths** (`output.dir`, `data.train` ...) are relative to the folder that the command runs in. Those in the
  `config.yaml` that a run keeps are absolute.
- **Numbers** are decimal. `1e-4` and `0.5` are numbers, `1000` is an integer; `010`, `0x10`, `1_000`, `4M`, `"5"`,
  `.nan` and, where an integer is wanted, `1e3` are mistakes. Truth values are `true` and `false`.
- **Refused**, all at once, each with file, line and column: unknown keys, keys given twice, values of another type or
  out of range, `<<`, anchors and aliases, tags, a second document, tabs as indentation.
)";

using config::Entry;
using config::GivenKeys;
using config::Layers;
using config::Section;
using config::Value;

constexpr std::string_view kModel = "model";

const Value* value_of(const Value& map, std::string_view key) {
  const auto entry = std::ranges::find(map.entries, key, &Entry::key);
  return entry == map.entries.end() ? nullptr : &entry->value;
}

/// The value of `section`.`key`, or of `key` if `section` is empty, in the last layer that has it.
std::string_view text_at(const Layers& layers, std::string_view section, std::string_view key) {
  for (auto layer = layers.roots.rbegin(); layer != layers.roots.rend(); ++layer) {
    const Value* map = section.empty() ? &*layer : value_of(*layer, section);
    const Value* value = map == nullptr ? nullptr : value_of(*map, key);
    if (value != nullptr) return value->text;
  }
  return {};
}

const FamilyConfig& family_of(std::string_view task, FamilyConfigs families) {
  const auto found = std::ranges::find(families, task, &FamilyConfig::task);
  return found == families.end() ? *families.front()
                                 : **found;  // an unknown name is reported later, when it is read
}

/// The preset that the layers name; "" if the family has no such preset.
std::string_view preset_of(const Layers& layers, const FamilyConfig& family) {
  const std::string_view preset = text_at(layers, kModel, "preset");
  const std::vector<std::string> known = family.presets();
  return std::ranges::count(known, preset) == 0 ? "" : preset;
}

/// The folder of a run whose configuration names none. For a file below a folder `configs`, its path there,
/// so that no two of the files share one: runs/vit/quickstart for configs/vit/quickstart.yaml. For
/// others the family and the name: runs/llm/mine.
std::filesystem::path default_output_dir(const std::filesystem::path& file, const FamilyConfig& family) {
  std::error_code no_such_path;  // reported when the file is read
  const std::filesystem::path whole = std::filesystem::absolute(file, no_such_path).lexically_normal();
  std::filesystem::path below;
  bool in_configs = false;
  for (const std::filesystem::path& part : whole.parent_path()) {
    below = part == "configs" ? std::filesystem::path() : below / part;
    in_configs = in_configs || part == "configs";
  }
  if (!in_configs || below.empty()) below = family.folder();
  return "runs" / below / file.stem();
}

/// Whether every key of `model` was given, except those of its routing, which a dense checkpoint lacks.
bool gives_every_size(RunConfig run, FamilyConfigs families, const GivenKeys& given) {
  Section root = config::describe(run, families);
  return std::ranges::all_of(all_fields(root.section_named(kModel)), [&](const config::KeyedField& field) {
    return field.key.starts_with("model.moh.") || given.places.contains(field.key);
  });
}

/// If only gate_scaling is given, it determines balance_loss, too, as it did before that key existed: older
/// configurations rely on it.
void settle_balance_loss(MohConfig& moh, const GivenKeys& given) {
  if (given.places.contains("model.moh.balance_loss") || !given.places.contains("model.moh.gate_scaling"))
    return;
  moh.balance_loss = moh.gate_scaling == GateScaling::kPaper ? BalanceLoss::kPaper : BalanceLoss::kCode;
}

/// Replaces a share by the number of heads, if `key` was given as one.
void settle_share(const std::string& key, const PerLayer& heads, const GivenKeys& given, config::Rules& rules,
                  PerLayer& counts) {
  const auto share = given.shares.find(key);
  if (share == given.shares.end()) return;
  counts = heads;
  const auto settle = [&](std::int64_t& number) {
    const double count = share->second * static_cast<double>(number) / 100;
    if (std::trunc(count) != count)
      rules.refuse({key}, "a share that is a whole number of the " + std::to_string(number) + " heads",
                   config::number_text(share->second) + "%, which is " + config::number_text(count));
    number = static_cast<std::int64_t>(count);
  };
  settle(counts.every);
  for (std::int64_t& number : counts.each) settle(number);
}

void settle_shares(FamilyConfig& family, const GivenKeys& given, config::Rules& rules) {
  MohConfig* const moh = family.moh();
  if (moh == nullptr) return;
  settle_share("model.moh.num_shared", family.heads(), given, rules, moh->num_shared);
  settle_share("model.moh.top_k", family.heads(), given, rules, moh->top_k);
  settle_share("model.moh.active", family.heads(), given, rules, moh->active);
  config::settle_active_heads(*moh, given, rules);
}

/// Notes of counts of steps on the command line which do not count, as the file gives their epochs.
void note_unused_steps(const RunConfig& run, const GivenKeys& given, std::vector<std::string>& notes) {
  struct Length {
    std::string_view steps, epochs;
    std::int64_t value;
  };
  const EpochSchedule& schedule = run.schedule_epochs;
  for (const Length& length :
       {Length{"train.steps", "train.epochs", run.train.epochs},
        {"schedule.warmup_steps", "schedule.warmup_epochs", schedule.warmup},
        {"schedule.decay_steps", "schedule.decay_epochs", schedule.decay},
        {"schedule.cooldown_steps", "schedule.cooldown_epochs", schedule.cooldown},
        {"eval.every", "eval.every_epochs", run.eval.every_epochs},
        {"checkpoint.every", "checkpoint.every_epochs", run.checkpoint.every_epochs}}) {
    const auto steps = given.places.find(length.steps), epochs = given.places.find(length.epochs);
    if (length.value == 0 || steps == given.places.end() || epochs == given.places.end()) continue;
    const config::Source *of_steps = steps->second.source, *of_epochs = epochs->second.source;
    if (of_steps == nullptr || of_steps->is_file || of_epochs == nullptr || !of_epochs->is_file) continue;
    std::string note(length.steps);
    note.append(" is not used: ").append(length.epochs).append(" (").append(std::to_string(length.value));
    note.append(") says the same in epochs; add ").append(length.epochs).append("=0");
    notes.push_back(std::move(note));
  }
}

}  // namespace

RunFile::RunFile(const std::string& path, const std::vector<std::string>& overrides, FamilyConfigs families)
    : families_(families) {
  config::load_layers(path, overrides, layers_, problems_);
  read(path);
}

RunFile RunFile::of_text(const std::string& name, std::string text, FamilyConfigs families,
                         const std::vector<std::string>& overrides) {
  RunFile file(families);
  config::load_text(name, std::move(text), overrides, file.layers_, file.problems_);
  file.read(name);
  return file;
}

void RunFile::read(const std::string& path) {
  for (Value& layer : layers_.roots) config::drop_constant_keys(layer);
  run_ = beginning(path);
  read_layers();
}

/// The defaults and the preset, which has to be applied first, as all other keys override it.
RunConfig RunFile::beginning(const std::string& path) const {
  const FamilyConfig& family = family_of(text_at(layers_, "", "task"), families_);
  RunConfig run = default_run(family);
  run.output.dir = default_output_dir(path, family);
  const std::string_view preset = preset_of(layers_, family);
  if (!preset.empty()) run.family->begin_with_preset(preset);
  return run;
}

void RunFile::read_layers() {
  const Section fields = config::describe(run_, families_);
  for (const Value& root : layers_.roots) config::read_fields(fields, root, given_, problems_);
}

bool RunFile::leaves_model_open() const {
  if (run_.init.from.empty() || !layers_.complete || !problems_.empty()) return false;
  return preset_of(layers_, *run_.family).empty() && !gives_every_size(run_, families_, given_);
}

std::string RunFile::left_to_defaults(config::FieldProperty property) const {
  if (!preset_of(layers_, *run_.family).empty()) return {};
  RunConfig copy = run_;  // a field list needs a struct that is not const
  const Section root = config::describe(copy, families_);
  std::string text;
  for (const config::KeyedField& field : all_fields(root)) {
    if (!field.has(property) || given_.places.contains(field.key)) continue;
    text += (text.empty() ? "" : ", ") + field.key + " " + config::value_yaml(*field.field);
  }
  return text;
}

std::vector<std::string> RunFile::required_model_keys() const {
  RunConfig run = run_;
  Section root = config::describe(run, families_);
  std::vector<std::string> required;
  for (const config::KeyedField& field : all_fields(root.section_named(kModel))) {
    if (!field.has(config::FieldProperty::kOptionalWithWeights)) required.push_back(field.key);
  }
  return required;
}

std::vector<std::string> RunFile::missing_model_keys() const {
  std::vector<std::string> missing = required_model_keys();
  std::erase_if(missing, [&](const std::string& key) { return gives(key); });
  return missing;
}

bool RunFile::gives_sizes() const {
  return std::ranges::any_of(required_model_keys(), [&](const std::string& key) { return gives(key); });
}

RunConfig RunFile::finish(ConfigUse use, const FamilyConfig* checkpoint) {
  if (layers_.complete) {  // otherwise keys of unread parts would be reported as missing
    if (checkpoint != nullptr && problems_.empty()) {
      run_.family->begin_with_model_of(*checkpoint);
      // If a router is given, the whole routing of the configuration replaces that of the checkpoint.
      if (run_.family->moh() != nullptr && given_.places.contains("model.moh.router"))
        *run_.family->moh() = {};
      read_layers();
    }
    if (problems_.empty())
      run_.family->follow_files([&](std::string_view key) { return given_.places.contains(key); },
                                checkpoint);
    if (MohConfig* moh = run_.family->moh()) settle_balance_loss(*moh, given_);
    config::Rules rules(given_, {&layers_.sources.front()}, "model.preset", problems_);
    settle_shares(*run_.family, given_, rules);
    config::check(run_, checkpoint, rules);
    if (use == ConfigUse::kData) run_.family->require_data(rules);
  }
  problems_.throw_if_any();
  note_unused_steps(run_, given_, notes_);
  if (MohConfig* moh = run_.family->moh()) {
    moh->active = {};  // top_k says it now
    std::ranges::move(config::routing_notes(*moh, run_.family->heads(), given_), std::back_inserter(notes_));
  }
  return run_;
}

RunConfig load_run_config(const std::string& path, const std::vector<std::string>& overrides,
                          FamilyConfigs families, ConfigUse use) {
  return RunFile(path, overrides, families).finish(use);
}

RunConfig with_absolute_paths(RunConfig run) {
  namespace fs = std::filesystem;
  const auto absolute = [](const fs::path& path) {
    return path.empty() ? path : fs::absolute(path).lexically_normal();
  };
  const Section root = config::describe(run, {});
  for (const config::KeyedField& field : all_fields(root)) {
    const config::Target& target = field.field->target;
    if (const auto* path = std::get_if<fs::path*>(&target)) {
      if (std::ranges::find(field.field->words, (*path)->native()) == field.field->words.end())
        **path = absolute(**path);
    }
    if (const auto* paths = std::get_if<std::vector<fs::path>*>(&target))
      std::ranges::transform(**paths, (*paths)->begin(), absolute);
    if (const auto* sources = std::get_if<std::vector<DataSource>*>(&target)) {
      for (DataSource& source : **sources)
        std::ranges::transform(source.paths, source.paths.begin(), absolute);
    }
  }
  for (std::string* path : {&run.init.from, &run.gemm_algorithms}) *path = absolute(*path).string();
  return run;
}

std::string print_resolved(const RunConfig& run) {
  RunConfig copy = run;  // a field list needs a struct that is not const
  return config::section_yaml(config::describe(copy, {}));
}

std::string print_reference(FamilyConfigs families) {
  RunConfig run = default_run(*families.front());
  std::string text =
      std::string(kReferencePreface) + config::reference_markdown(config::describe_common(run, families));
  for (const FamilyConfig* family : families) {
    FamilyValue copy(*family);
    Section root("", "");
    copy->describe(root);
    text += "\n# With `task: " + std::string(family->task()) + "`\n" + config::reference_markdown(root);
  }
  return text;
}

}  // namespace moh
