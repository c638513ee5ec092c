#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/llm/llama_config.h"
#include "train/families/language/data/token_cache.h"
#include "train/families/language/generate_text.h"
#include "train/trainer/config/family_run.h"
#include "train/trainer/task/data/evaluation_bound.h"

namespace moh {

struct RunConfig;

/// The name of the tokenizer's hash in Task::identity().
inline constexpr std::string_view kTokenizerHash = "tokenizer_hash";

/// Values of data.tokenizer that are no path.
inline constexpr const char* kByteTokenizer = "byte";
/// The tokenizer of a model from elsewhere that came without one.
inline constexpr const char* kOtherTokenizer = "other";

/// Training and validation text: the section `data` of a language model's run.
struct TextDataConfig {
  std::vector<DataSource> train;
  std::vector<DataSource> validation;
  double validation_fraction = 0.1;
  /// kByteTokenizer, kOtherTokenizer, or the path of a tokenizer.json or of a folder with one.
  std::filesystem::path tokenizer = kByteTokenizer;
  TextOptions text;  ///< cache, text_key, templates
  std::int64_t sequence_length = 256;
  bool document_mask = false;
  bool reset_positions = false;
};

/// The text that a model generates at the end of its training: the section `sample`.
struct SampleConfig {
  std::string prompt = "\n";
  GenerateOptions options{.tokens = 256, .pick = {.temperature = 0.8}};
};

/// The part of a run's configuration that `task: language_model` defines.
struct LanguageRun final : FamilyRun<LanguageRun, LlamaConfig> {
  static constexpr std::string_view kTask = "language_model";

  TextDataConfig data;
  SampleConfig sample;
  EvaluationBound evaluated = {};  ///< eval.max_tokens, of each source
  bool new_tokenizer = false;      ///< init.new_tokenizer
  /// The hash of the tokenizer that a trained model knows; empty: not known, or not trained yet.
  std::string trained_tokenizer = {};

  static void add_model_fields(LlamaConfig& model, config::Section& section);
  static LlamaConfig model_of_preset(std::string_view name);
  static LlamaConfig normal_form(LlamaConfig model);

  std::string_view folder() const override { return "llm"; }
  void describe(config::Section& root) override;
  void check(const RunConfig& run, config::Rules& rules) const override;
  void require_data(config::Rules& rules) const override;
  std::vector<std::string> presets() const override;
  void follow_files(FunctionRef<bool(std::string_view key)> is_given,
                    const FamilyConfig* checkpoint) override;
  void remember(std::span<const std::pair<std::string, std::string>> identity) override;
  EvaluationWork evaluation_work() const override;
  std::vector<std::string> evaluation_settings(const std::string& path) const override {
    return {"data.validation=" + path, "eval.max_tokens=0"};
  }
  std::vector<config::Difference> disagreements(const FamilyConfig& checkpoint) const override;
  std::vector<config::Difference> other_results(const FamilyConfig& other) const override;
  LoraConfig* lora() override { return &model.lora; }
  PerLayer heads() const override { return model.moh.routing->units({model.heads, kv_heads()}); }
  std::int64_t kv_heads() const override { return model.kv_heads > 0 ? model.kv_heads : model.heads; }
};

/// data.tokenizer of a model of which the vocabulary size is all that is known: kByteTokenizer if the size is
/// that of bytes, else kOtherTokenizer.
const char* likely_tokenizer(std::int64_t vocab_size);

/// Whether the configuration names a tokenizer's files.
bool has_tokenizer_files(const TextDataConfig& data);

/// The part of a run's configuration that the language family defines. Throws ConfigError for a run of
/// another task.
LanguageRun& language_run(RunConfig& run);
const LanguageRun& language_run(const RunConfig& run);
const LanguageRun& language_run(const FamilyConfig& family);

}  // namespace moh
