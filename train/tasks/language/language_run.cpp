#include "train/tasks/language/language_run.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "models/llm/llama_presets.h"
#include "train/config/limits.h"
#include "train/config/model_agreement.h"
#include "train/config/rules.h"
#include "train/tasks/language/llama_fields.h"

namespace moh {

namespace config {

namespace {

Section model_section(std::string& preset, LlamaConfig& c) {
  Section s("model",
            "The decoder: RMSNorm, rotary positions, SwiGLU, no biases (LLaMA), with or without MoH.");
  std::vector<std::string> names{std::string(LanguageRun::kNoPreset)};
  for (const LlamaPreset& known : llama_presets()) names.emplace_back(known.name);
  s.field("preset", NameRef{&preset, std::move(names)},
          "A published model that sets all fields of this section; keys that are given, in whichever file, "
          "override it.");
  describe(c, s);
  return s;
}

Section data_section(TextDataConfig& c) {
  Section s("data", "Text to train and to validate on.");
  s.field("train", c.train, "Text files, token files (`moh data tokenize`), or folders of them.");
  s.field("validation", c.validation,
          "The same, held out. Empty: a part of each training file is split off.");
  s.field("validation_fraction", c.validation_fraction, from_below(0, 1),
          "That part, at the end of each file. 0: train on everything and validate on nothing.");
  s.field("tokenizer", c.tokenizer, "How text becomes tokens. `byte`: one token per byte.");
  s.field("sequence_length", c.sequence_length, at_least(1, "tokens").capped(kMaxLength),
          "Length of the sequences the model is trained on.");
  return s;
}

Section sample_section(SampleConfig& c) {
  Section s("sample", "A text that the model writes when the training ends.");
  s.field("prompt", c.prompt, "How the text begins.");
  s.field("tokens", c.options.tokens, at_least(0, "tokens").capped(kMaxLength),
          "How long it goes on. 0: no sample.");
  s.field("temperature", c.options.pick.temperature, at_least(0),
          "Divides the logits. 0: always the likeliest token.");
  s.field("top_k", c.options.pick.top_k, at_least(0, "tokens").capped(kMaxVocab),
          "Draw among the likeliest only. 0: among all.");
  s.field("top_p", c.options.pick.top_p, above_up_to(0, 1),
          "Draw among the likeliest whose probabilities sum to this.");
  return s;
}

}  // namespace

}  // namespace config

namespace {

constexpr std::string_view kTokenizerNames[] = {"byte"};

/// Keys of the model that may change between a checkpoint and the run that begins from it.
constexpr std::array<std::string_view, 7> kFree = {"model.preset",    "model.max_positions", "model.dropout",
                                                   "model.init_std",  "model.recompute",     "model.moh",
                                                   "model.vocab_size"};

std::string text(std::int64_t number) {
  return std::to_string(number);
}

}  // namespace

std::span<const std::string_view> names_of(TokenizerKind) {
  return kTokenizerNames;
}

void LanguageRun::describe(config::Section& root) {
  root.section(config::model_section(preset, model));
  root.section(config::data_section(data));
  root.section_named("eval").field("max_tokens", max_eval_tokens, config::at_least(0, "tokens"),
                                   "Evaluate on the first of them only. 0: on all.");
  root.section(config::sample_section(sample));
}

void LanguageRun::check(const RunConfig&, config::Rules& rules) const {
  ConfigFaults faults("model.");
  moh::check(model, faults);
  rules.refuse(faults);
  constexpr std::int64_t kByteVocab = 256;
  if (data.sequence_length > model.max_positions) {
    rules.refuse({"data.sequence_length", "model.max_positions"},
                 "at most model.max_positions (" + text(model.max_positions) + ")",
                 text(data.sequence_length));
  }
  if (data.tokenizer == TokenizerKind::kByte && model.vocab_size < kByteVocab) {
    rules.refuse({"model.vocab_size", "data.tokenizer"}, "at least 256, the tokens of data.tokenizer: byte",
                 text(model.vocab_size));
  }
}

void LanguageRun::require_data(config::Rules& rules) const {
  if (!data.train.empty()) return;
  rules.refuse({"data.train"}, "text to train on", "no path", "name files or folders: data.train=text.txt");
}

std::vector<std::string> LanguageRun::presets() const {
  std::vector<std::string> names;
  for (const LlamaPreset& known : llama_presets()) names.emplace_back(known.name);
  return names;
}

void LanguageRun::begin_with_preset(std::string_view name) {
  preset = name;
  model = find_llama_preset(name)->config;
}

void LanguageRun::begin_with_model_of(const FamilyConfig& checkpoint) {
  model = language_run(checkpoint).model;
}

std::vector<ModelDisagreement> LanguageRun::disagreements(const FamilyConfig& checkpoint) const {
  LlamaConfig ours = spelt_out(model), source = spelt_out(language_run(checkpoint).model);
  config::Section our_fields("model", ""), source_fields("model", "");
  config::describe(ours, our_fields);
  config::describe(source, source_fields);
  std::vector<ModelDisagreement> found = disagreements_of(our_fields, source_fields, kFree);
  if (ours.vocab_size < source.vocab_size)
    found.push_back({"model.vocab_size", "at least " + text(source.vocab_size), text(ours.vocab_size)});
  return found;
}

const LanguageRun& language_run(const FamilyConfig& family) {
  if (const auto* run = dynamic_cast<const LanguageRun*>(&family)) return *run;
  throw ConfigError(error_message("task", "", LanguageRun::kTask, family.task()));
}

const LanguageRun& language_run(const RunConfig& run) {
  return language_run(*run.family);
}

LanguageRun& language_run(RunConfig& run) {
  return const_cast<LanguageRun&>(language_run(std::as_const(run)));
}

}  // namespace moh
