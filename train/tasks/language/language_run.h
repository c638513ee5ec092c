#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "models/llm/llama_config.h"
#include "train/config/run_config.h"
#include "train/tasks/language/generate_text.h"

namespace moh {

enum class TokenizerKind {
  kByte,
  kOther  ///< of a model from elsewhere: moh cannot turn text into its tokens
};
std::span<const std::string_view> names_of(TokenizerKind);

/// Training and validation text: the section `data` of a language model's run.
struct TextDataConfig {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> validation;
  double validation_fraction = 0.1;
  TokenizerKind tokenizer = TokenizerKind::kByte;
  std::int64_t sequence_length = 256;
};

/// The text that a model generates at the end of its training: the section `sample`.
struct SampleConfig {
  std::string prompt = "\n";
  GenerateOptions options{.tokens = 256, .pick = {.temperature = 0.8}};
};

/// The part of a run's configuration that `task: language_model` defines.
struct LanguageRun final : CloneableFamilyConfig<LanguageRun> {
  static constexpr std::string_view kTask = "language_model";
  static constexpr std::string_view kNoPreset = "none";

  std::string preset{kNoPreset};
  LlamaConfig model;
  TextDataConfig data;
  SampleConfig sample;
  std::int64_t max_eval_tokens = 0;  ///< eval.max_tokens
  bool new_tokenizer = false;        ///< init.new_tokenizer

  std::string_view task() const override { return kTask; }
  void describe(config::Section& root) override;
  void check(const RunConfig& run, config::Rules& rules) const override;
  void require_data(config::Rules& rules) const override;
  std::vector<std::string> presets() const override;
  void begin_with_preset(std::string_view name) override;
  void begin_with_model_of(const FamilyConfig& checkpoint) override;
  std::vector<std::string> evaluation_settings(const std::string& path) const override {
    return {"data.validation=" + path, "eval.max_tokens=0"};
  }
  std::vector<config::Difference> disagreements(const FamilyConfig& checkpoint) const override;
  std::vector<config::Difference> other_results(const FamilyConfig& other) const override;
  std::span<const std::string_view> unseen_in_weights() const override;
  std::span<const std::string_view> optional_model_keys() const override;
  MohConfig* moh() override { return &model.moh; }
  PerLayer heads() const override { return model.heads; }
  RecomputeLevel* recompute() override { return &model.recompute; }
};

/// The tokenizer of a model whose configuration has the vocabulary size only: kByte if the size is that of
/// the byte tokenizer, else kOther.
TokenizerKind likely_tokenizer(std::int64_t vocab_size);

/// The part of a run's configuration that the language family defines. Throws ConfigError for a run of
/// another task.
LanguageRun& language_run(RunConfig& run);
const LanguageRun& language_run(const RunConfig& run);
const LanguageRun& language_run(const FamilyConfig& family);

}  // namespace moh
