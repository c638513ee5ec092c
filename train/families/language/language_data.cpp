#include "train/families/language/language_data.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/function_ref.h"
#include "train/base/log/logging.h"
#include "train/families/language/data/corpus.h"
#include "train/families/language/generate_text.h"
#include "train/families/language/language_run.h"
#include "train/families/language/tokenizer_rows.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

using Contents = std::vector<std::pair<std::string, std::string>>;

std::vector<std::string> as_strings(const std::vector<std::filesystem::path>& paths) {
  return {paths.begin(), paths.end()};
}

Corpus open_files(std::span<const std::string> inputs, const Tokenizer& tokenizer, const TextOptions& options,
                  const std::filesystem::path& run_folder = {}) {
  Corpus corpus = open_corpus(inputs, tokenizer, run_folder, options);
  if (corpus.skipped.count() > 0) log_warning("data: skipped " + corpus.skipped.describe());
  return corpus;
}

/// "data.train", or "data.train[books]" of a source with a name.
std::string key_of(std::string_view list, const DataSource& source) {
  return std::string(list) + (source.name.empty() ? "" : "[" + source.name + "]");
}

void require_held_out(const TextDataConfig& config, const TextSource& validation) {
  if (validation.tokens->size() >= 2) return;
  const bool own = !config.validation.empty();
  throw DataError(error_message(
      own ? "data.validation" : "data.validation_fraction",
      validation.name.empty() ? "held-out tokens" : "held-out tokens of source " + validation.name,
      "2 or more", std::to_string(validation.tokens->size()),
      "give more text, or hold nothing out with data.validation_fraction: 0"));
}

/// All of the held-out files, source by source.
std::vector<TextSource> open_validation(const TextDataConfig& config, const Tokenizer& tokenizer,
                                        FunctionRef<Corpus(std::string key, const DataSource&)> open) {
  std::vector<TextSource> sources;
  for (const DataSource& source : config.validation) {
    const Corpus corpus = open(key_of("data.validation", source), source);
    sources.push_back({source.name, split_corpus(corpus, tokenizer, 0.0).train});
  }
  return sources;
}

/// The files of a source, with a note in `contents`.
Corpus open_noted(const RunConfig& run, const Tokenizer& tokenizer, std::string key, const DataSource& source,
                  Contents& contents) {
  Corpus corpus =
      open_files(as_strings(source.paths), tokenizer, language_run(run).data.text, run.output.dir);
  std::string description = corpus.describe_contents();
  if (source.weight > 0) description += ", weight " + std::to_string(source.weight);
  contents.emplace_back(std::move(key), std::move(description));
  return corpus;
}

/// Refuses a training from random weights of fewer rows than the tokenizer has tokens: nothing calls for it,
/// as the weights of another program may.
void require_all_rows(const RunConfig& run, const Tokenizer& tokenizer) {
  const std::int64_t tokens = whole_vocabulary(tokenizer), rows = language_run(run).model.vocab_size;
  if (!run.init.from.empty() || tokens <= rows) return;
  throw ConfigError(error_message("model.vocab_size", "",
                                  "at least the " + std::to_string(tokens) + " tokens of data.tokenizer " +
                                      language_run(run).data.tokenizer.string(),
                                  std::to_string(rows)));
}

std::shared_ptr<const LanguageData> open_training_data(const RunConfig& run) {
  const TextDataConfig& config = language_run(run).data;
  auto data = std::make_shared<LanguageData>();
  data->tokenizer = tokenizer_of(language_run(run));
  require_document_marks(config, *data->tokenizer);
  const auto open = [&](std::string key, const DataSource& source) {
    return open_noted(run, *data->tokenizer, std::move(key), source, data->contents);
  };
  // So that a resumed run may find the same tokenizer elsewhere.
  if (has_tokenizer_files(config)) data->contents.emplace_back("data.tokenizer", describe(*data->tokenizer));
  const double fraction = config.validation.empty() ? config.validation_fraction : 0.0;
  for (const DataSource& source : config.train) {
    TokenSplit split = split_corpus(open(key_of("data.train", source), source), *data->tokenizer, fraction);
    const double weight = source.weight > 0 ? source.weight : 1.0;
    data->train.push_back({source.name, std::move(split.train), weight});
    if (fraction == 0) continue;
    data->validation.push_back({source.name, std::move(split.validation)});
  }
  if (!config.validation.empty()) data->validation = open_validation(config, *data->tokenizer, open);
  for (const TextSource& source : data->validation) require_held_out(config, source);
  return data;
}

std::shared_ptr<const LanguageData> open_evaluation_data(const RunConfig& run) {
  auto data = std::make_shared<LanguageData>();
  data->tokenizer = tokenizer_of(language_run(run));
  data->validation = open_held_out_text(run, *data->tokenizer, data->contents);
  return data;
}

void check_sample(const LanguageRun& run, const Tokenizer& tokenizer) {
  if (run.sample.options.tokens == 0) return;
  try {
    encode_prompt("sample.prompt", tokenizer, run.sample.prompt, run.model.max_positions);
  } catch (const DataError& error) {
    throw ConfigError(error.what());  // it is no file that is at fault
  }
}

/// A tokenizer with a vocabulary of any size whose tokens have no text, for synthetic data.
class NumberedTokens final : public Tokenizer {
 public:
  explicit NumberedTokens(std::int64_t vocab_size) : vocab_size_(vocab_size) {}

  std::string_view name() const override { return "random"; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::uint64_t content_hash() const override { return static_cast<std::uint64_t>(vocab_size_); }
  std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  void encode(std::string_view, std::vector<TokenId>&) const override {
    throw DataError(error_message("random tokens", "text", "none", "some", "random tokens have no text"));
  }
  std::string_view token_bytes(TokenId) const override { return {}; }

 private:
  std::int64_t vocab_size_;
};

/// Synthetic data for at least one step; one batch is held out.
std::shared_ptr<const LanguageData> made_up_data(const RunConfig& run) {
  const LanguageRun& language = language_run(run);
  const std::int64_t length = language.data.sequence_length, vocab_size = language.model.vocab_size;
  constexpr std::int64_t kLeast = std::int64_t{1} << 30, kMost = std::int64_t{1} << 62;
  const std::int64_t train = std::max(kLeast, std::min(length, kMost) + 1);
  const std::int64_t validation = std::min(run.train.batch_size, kMost / length) * length + 1;
  auto data = std::make_shared<LanguageData>();
  data->tokenizer = std::make_unique<NumberedTokens>(vocab_size);
  data->train = {{.tokens = random_tokens(train, vocab_size, run.random_seed())}};
  data->validation = {{.tokens = random_tokens(validation, vocab_size, run.random_seed())}};
  return data;
}

}  // namespace

std::shared_ptr<const LanguageData> open_language_data(const RunConfig& run, DataUse use) {
  switch (use) {
    case DataUse::kTraining: {
      const LanguageRun& language = language_run(run);
      const std::unique_ptr<const Tokenizer> tokenizer = tokenizer_of(language);
      require_all_rows(run, *tokenizer);
      check_sample(language, *tokenizer);
      return open_training_data(run);
    }
    case DataUse::kEvaluation:
      return open_evaluation_data(run);
    case DataUse::kSynthetic:
      return made_up_data(run);
  }
  fail_check(__FILE__, __LINE__, "use", "unknown DataUse");
}

std::unique_ptr<const Tokenizer> whole_tokenizer_of(const LanguageRun& run) {
  if (run.data.tokenizer == kOtherTokenizer) {
    throw ConfigError(
        error_message("data.tokenizer", "", "the model's tokenizer, which did not come with it",
                      "other: the model's " + std::to_string(run.model.vocab_size) + " tokens are not bytes",
                      "data.tokenizer=PATH names its tokenizer.json; data.tokenizer=byte uses bytes as its "
                      "tokens nevertheless"));
  }
  std::unique_ptr<const Tokenizer> tokenizer = open_tokenizer("data.tokenizer", run.data.tokenizer);
  const std::string hash = hash_text(tokenizer->content_hash());
  if (!run.trained_tokenizer.empty() && run.trained_tokenizer != hash) {
    throw ConfigError(error_message(
        "data.tokenizer", run.data.tokenizer.string(),
        "the tokenizer that the model was trained with, hash " + run.trained_tokenizer, "hash " + hash));
  }
  return tokenizer;
}

std::unique_ptr<const Tokenizer> tokenizer_of(const LanguageRun& run) {
  return with_rows(whole_tokenizer_of(run), run.model.vocab_size,
                   "data.tokenizer " + run.data.tokenizer.string());
}

TokenSourcePtr open_text(std::span<const std::string> inputs, const Tokenizer& tokenizer,
                         const TextOptions& options, std::string* contents) {
  const Corpus corpus = open_files(inputs, tokenizer, options);
  if (contents != nullptr) *contents = corpus.describe_contents();
  return split_corpus(corpus, tokenizer, 0.0).train;
}

void require_document_marks(const TextDataConfig& config, const Tokenizer& tokenizer) {
  if (!config.document_mask || DocumentMarks(tokenizer).exist()) return;
  throw ConfigError(error_message("data.document_mask", "",
                                  "a tokenizer with a token that ends documents or begins texts",
                                  describe(tokenizer)));
}

BatchOptions batch_options(const LanguageRun& run) {
  return {.sequence_length = run.data.sequence_length, .document_mask = run.data.document_mask};
}

std::vector<TextSource> open_held_out_text(const RunConfig& run, const Tokenizer& tokenizer,
                                           Contents& contents) {
  const TextDataConfig& config = language_run(run).data;
  require_document_marks(config, tokenizer);
  if (!config.validation.empty()) {
    return open_validation(config, tokenizer, [&](std::string key, const DataSource& source) {
      return open_noted(run, tokenizer, std::move(key), source, contents);
    });
  }
  if (config.train.empty())
    throw DataError("data: the configuration of this model names no text; name one with data=PATH");
  const std::shared_ptr<const LanguageData> data = open_training_data(run);
  contents = data->contents;
  std::vector<TextSource> sources = data->validation;
  if (sources.empty()) {
    throw DataError(
        "data: this run held nothing out (data.validation_fraction is 0); name a text with data=PATH");
  }
  return sources;
}

}  // namespace moh
