#include "train/families/translation/translation_data.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/checksum.h"
#include "train/base/log/logging.h"
#include "train/families/language/language_run.h"
#include "train/families/language/tokenizer_rows.h"
#include "train/families/translation/data/parallel_text.h"
#include "train/families/translation/data/tokenize_pairs.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

using Paths = std::vector<std::filesystem::path>;
using Contents = std::vector<std::pair<std::string, std::string>>;

/// Files of one key, and their partners, with the treatment of the pairs.
struct PairFiles {
  const char* key;
  const Paths &sources, &targets;
  ParallelOptions options;
  PairFilter filter;
};

PairFiles training_files(const ParallelDataConfig& c) {
  return {"data.train",
          c.train,
          c.train_targets,
          {.source_key = c.source_key,
           .target_key = c.target_key,
           .keep_equal = c.keep_equal,
           .keep_duplicates = c.keep_duplicates},
          {.max_length = c.max_length, .max_ratio = c.max_ratio}};
}

/// Held-out files are evaluated as they are, but for sentences that the model has no positions for.
PairFiles held_out_files(const ParallelDataConfig& c) {
  return {
      "data.validation",
      c.validation,
      c.validation_targets,
      {.source_key = c.source_key, .target_key = c.target_key, .keep_equal = true, .keep_duplicates = true},
      {.max_length = c.max_length}};
}

std::vector<ParallelSource> sources_of(const PairFiles& files) {
  std::vector<ParallelSource> sources;
  for (std::size_t i = 0; i < files.sources.size(); ++i)
    sources.push_back({files.sources[i], files.targets.empty() ? Paths::value_type() : files.targets[i]});
  return sources;
}

/// Reads the pairs of a key, and logs what was left out.
void read_pairs(const PairFiles& files, const LanguageTokenizers& tokenizers,
                FunctionRef<void(const TokenisedPair&)> sink) {
  ParallelReader reader(sources_of(files), files.options);
  DroppedPairs dropped;
  tokenize_pairs(reader, tokenizers, files.filter, dropped, sink);
  if (reader.skipped().count() > 0)
    log_warning(std::string(files.key) + ": skipped " + reader.skipped().describe());
  std::string reasons = reader.dropped().describe();
  if (dropped.count() > 0) reasons += (reasons.empty() ? "" : ", ") + dropped.describe();
  if (!reasons.empty()) log_info(std::string(files.key) + ": left out pairs: " + reasons);
}

/// The pairs, of which there is at least one, with a note in `contents`.
std::shared_ptr<const TokenPairs> finished(PairMemory& memory, const char* key, const char* what,
                                           Contents& contents) {
  auto pairs = std::make_shared<const TokenPairs>(memory.finish());
  if (pairs->size() == 0)
    throw DataError(error_message(key, what, "at least 1", "none after those that were left out"));
  contents.emplace_back(key, pairs->describe_contents());
  log_info(std::string(key) + ": " + pairs->describe_contents());
  return pairs;
}

/// The contents of the pairs are those of their targets, too, whose files may lie elsewhere when a run
/// resumes.
void note_targets(const char* key, Contents& contents) {
  contents.emplace_back(key, contents.back().second);
}

/// Whether a pair is held out: a function of its source sentence alone, so that a sentence with several
/// translations is in one part, and the parts are the same in every run.
bool is_held_out(const TextPair& pair, double fraction) {
  constexpr int kDigits = 13;  // of 4 bits, as many as a double has
  const std::string digits = checksum_hex(pair.source).substr(0, kDigits);
  return static_cast<double>(std::stoull(digits, nullptr, 16)) < fraction * 0x1p52;
}

/// Training pairs, and those that data.validation_fraction holds out of them.
void open_training(const ParallelDataConfig& config, TranslationData& data) {
  const std::int64_t vocab_size = data.tokenizers.vocab_size();
  PairMemory train(vocab_size), validation(vocab_size);
  const double fraction = config.validation.empty() ? config.validation_fraction : 0;
  read_pairs(training_files(config), data.tokenizers, [&](const TokenisedPair& pair) {
    (is_held_out(pair.text, fraction) ? validation : train).append(pair.source, pair.target);
  });
  data.train = finished(train, "data.train", "sentence pairs to train on", data.contents);
  if (!config.train_targets.empty()) note_targets("data.train_targets", data.contents);
  if (fraction > 0)
    data.validation =
        finished(validation, "data.validation_fraction", "held-out sentence pairs", data.contents);
}

bool holds_out(const ParallelDataConfig& config) {
  return !config.validation.empty() || (config.validation_fraction > 0 && !config.train.empty());
}

/// Passes on the pairs of data.validation, or else those that data.validation_fraction holds out.
void read_held_out(const ParallelDataConfig& config, const LanguageTokenizers& tokenizers,
                   FunctionRef<void(const TokenisedPair&)> sink) {
  if (!config.validation.empty()) return read_pairs(held_out_files(config), tokenizers, sink);
  read_pairs(training_files(config), tokenizers, [&](const TokenisedPair& pair) {
    if (is_held_out(pair.text, config.validation_fraction)) sink(pair);
  });
}

void open_held_out(const ParallelDataConfig& config, TranslationData& data) {
  PairMemory pairs(data.tokenizers.vocab_size());
  read_held_out(config, data.tokenizers,
                [&](const TokenisedPair& pair) { pairs.append(pair.source, pair.target); });
  const char* key = config.validation.empty() ? "data.validation_fraction" : "data.validation";
  data.validation = finished(pairs, key, "held-out sentence pairs", data.contents);
  if (!config.validation_targets.empty()) note_targets("data.validation_targets", data.contents);
}

void require_held_out(const ParallelDataConfig& config) {
  if (!holds_out(config))
    throw DataError("data: this run held nothing out; name sentence pairs with data=PATH");
}

/// Refuses a training from random weights of fewer rows, `key`, than the tokenizer has tokens.
void require_all_rows(const RunConfig& run, const Tokenizer& tokenizer, std::string_view key,
                      std::int64_t rows) {
  const std::int64_t tokens = whole_vocabulary(tokenizer);
  if (!run.init.from.empty() || tokens <= rows) return;
  throw ConfigError(error_message(key, "",
                                  "at least the " + std::to_string(tokens) + " tokens of data.tokenizer " +
                                      translation_run(run).data.tokenizer.string(),
                                  std::to_string(rows)));
}

/// `count` pairs of `tokens` tokens with their ends, drawn uniformly from the vocabulary.
std::shared_ptr<const TokenPairs> random_pairs(std::int64_t count, std::int64_t tokens,
                                               std::int64_t vocab_size, std::uint64_t seed) {
  const std::int64_t length = tokens - 1;
  const TokenSourcePtr ids = random_tokens(2 * count * length, vocab_size, seed);
  PairMemory pairs(vocab_size);
  std::vector<TokenId> source(static_cast<std::size_t>(length)), target(source);
  for (std::int64_t i = 0; i < count; ++i) {
    ids->copy(2 * i * length, source);
    ids->copy((2 * i + 1) * length, target);
    pairs.append(source, target);
  }
  return std::make_shared<const TokenPairs>(pairs.finish());
}

/// Pairs of equal lengths near kSyntheticTokens, of which some fill a token batch.
std::shared_ptr<const TranslationData> made_up_data(const RunConfig& run) {
  constexpr std::int64_t kBatches = 4;
  const TranslationRun& translation = translation_run(run);
  const std::int64_t batch_tokens = translation.data.batch_tokens;
  const std::int64_t longest = std::min(kSyntheticTokens, translation.data.max_length);
  const std::int64_t pairs = (batch_tokens + longest - 1) / longest, tokens = batch_tokens / pairs;
  auto data = std::make_shared<TranslationData>();
  data->synthetic = true;
  const auto bytes = std::make_shared<ByteTokenizer>();  // for its name alone: the ids stand for no text
  data->tokenizers = {bytes, bytes};
  const std::int64_t ids =
      std::min(translation.model.vocab_size, spelt_out(translation.model).source_vocab_size);
  data->train = random_pairs(kBatches * pairs, tokens, ids, run.random_seed());
  data->validation = random_pairs(pairs, tokens, ids, run.random_seed());
  return data;
}

}  // namespace

std::shared_ptr<const TranslationData> open_translation_data(const RunConfig& run, DataUse use) {
  if (use == DataUse::kSynthetic) return made_up_data(run);
  const TranslationRun& translation = translation_run(run);
  const ParallelDataConfig& config = translation.data;
  auto data = std::make_shared<TranslationData>();
  data->tokenizers = tokenizers_of(translation);
  const Tokenizer& tokenizer = *data->tokenizers.source;  // whose hash and files are those of both
  data->marks = sentence_marks(translation, tokenizer);
  if (use == DataUse::kTraining) {
    const TranslationConfig model = spelt_out(translation.model);
    require_all_rows(run, *data->tokenizers.target, "model.vocab_size", model.vocab_size);
    require_all_rows(run, tokenizer, "model.source_vocab_size", model.source_vocab_size);
  }
  // So that a resumed run may find the same tokenizer elsewhere.
  if (!tokenizer.files().empty()) data->contents.emplace_back("data.tokenizer", describe(tokenizer));
  if (use == DataUse::kTraining)
    open_training(config, *data);
  else
    require_held_out(config);
  if (use == DataUse::kEvaluation || !config.validation.empty()) open_held_out(config, *data);
  return data;
}

std::vector<TextPair> held_out_text(const RunConfig& run) {
  const TranslationRun& translation = translation_run(run);
  require_held_out(translation.data);
  std::vector<TextPair> pairs;
  read_held_out(translation.data, tokenizers_of(translation),
                [&](const TokenisedPair& pair) { pairs.push_back(pair.text); });
  return pairs;
}

}  // namespace moh
