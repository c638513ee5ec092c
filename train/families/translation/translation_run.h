#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/translation/translation_config.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/config/family_run.h"
#include "train/trainer/task/data/evaluation_bound.h"

namespace moh {

struct RunConfig;

/// Parallel text: the section `data` of a translation run.
struct ParallelDataConfig {
  std::vector<std::filesystem::path> train, train_targets;
  std::vector<std::filesystem::path> validation, validation_targets;
  double validation_fraction = 0.02;
  std::string source_key = "source", target_key = "target";
  bool keep_equal = false, keep_duplicates = false;  ///< in training
  /// kByteTokenizer, kOtherTokenizer, or the path of a tokenizer's file or of a folder with one or a pair
  std::filesystem::path tokenizer = "byte";
  /// Id of the token that the decoder begins with: -1: the one that ends sentences, as in fairseq.
  std::int64_t decoder_start = -1;
  std::int64_t batch_tokens = 1024;
  std::int64_t max_length = 256;  ///< tokens of either sentence, its end included
  double max_ratio = 0;           ///< of the tokens of the longer sentence to those of the shorter; 0: any
};

/// The part of a run's configuration that `task: translation` defines.
struct TranslationRun final : FamilyRun<TranslationRun, TranslationConfig> {
  static constexpr std::string_view kTask = "translation";

  ParallelDataConfig data;
  double label_smoothing = 0.1;  ///< loss.label_smoothing
  EvaluationBound evaluated;     ///< eval.max_tokens, of the targets
  bool new_tokenizer = false;    ///< init.new_tokenizer
  /// The hash of the tokenizer that a trained model knows; empty: not known, or not trained yet.
  std::string trained_tokenizer = {};

  static void add_model_fields(TranslationConfig& model, config::Section& section);
  static TranslationConfig model_of_preset(std::string_view name);
  static TranslationConfig normal_form(TranslationConfig model);

  void describe(config::Section& root) override;
  void check(const RunConfig& run, config::Rules& rules) const override;
  void require_data(config::Rules& rules) const override;
  bool has_epochs() const override { return true; }
  std::vector<std::string> presets() const override;
  void follow_files(FunctionRef<bool(std::string_view key)> is_given,
                    const FamilyConfig* checkpoint) override;
  void remember(std::span<const std::pair<std::string, std::string>> identity) override;
  EvaluationWork evaluation_work() const override;
  std::vector<std::string> evaluation_settings(const std::string& path) const override {
    return {"data.validation=" + path, "data.validation_targets=[]", "eval.max_tokens=0"};
  }
  std::vector<config::Difference> disagreements(const FamilyConfig& checkpoint) const override;
  std::vector<config::Difference> other_results(const FamilyConfig& other) const override;
  PerLayer heads() const override { return model.moh.routing->units({model.heads, kv_heads()}); }
  std::int64_t kv_heads() const override { return model.kv_heads > 0 ? model.kv_heads : model.heads; }
};

/// The tokenizers of the two languages; most have one, and both are the same object.
struct LanguageTokenizers {
  std::shared_ptr<const Tokenizer> source, target;

  /// Ids below which the tokens of both lie.
  std::int64_t vocab_size() const { return std::max(source->vocab_size(), target->vocab_size()); }
};

/// The tokenizers of a run's data, with the tokens for which the model has rows. Throws as that of a language
/// model does (language_data.h).
LanguageTokenizers tokenizers_of(const TranslationRun& run);

/// The ids around a sentence: the one that ends it, in the source, too, and the decoder's first input.
struct SentenceMarks {
  TokenId end = 0, decoder_start = 0;
};
/// Throws ConfigError for a tokenizer without a token that ends a text.
SentenceMarks sentence_marks(const TranslationRun& run, const Tokenizer& tokenizer);

/// The part of a run's configuration that the family defines. Throws ConfigError for a run of another task.
const TranslationRun& translation_run(const RunConfig& run);
const TranslationRun& translation_run(const FamilyConfig& family);

}  // namespace moh
