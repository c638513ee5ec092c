#include "train/tasks/language/data/train_tokenizer.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/log/progress.h"
#include "train/tasks/language/data/corpus.h"
#include "train/tasks/language/data/encode_documents.h"
#include "train/tokenizers/tokenizer.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

using Counts = std::unordered_map<std::string, std::int64_t>;

/// Says where a text can be cut: its ids are the lengths of words.
class Words final : public Tokenizer {
 public:
  explicit Words(WordPattern pattern) : steps_(pre_tokenizers_of(pattern)) {}

  /// Calls use(word) for the words of a text.
  template <class Use>
  void for_each(std::string_view text, Use use) const {
    std::string repaired;
    if (!is_utf8(text)) {
      repaired = with_valid_utf8(text);
      text = repaired;
    }
    pre_tokenize(steps_, {text, true}, [&](const Piece& piece) { use(piece.text); });
  }

  std::string_view name() const override { return "words"; }
  std::int64_t vocab_size() const override { return 0; }
  std::uint64_t content_hash() const override { return 0; }
  std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    for_each(text, [&](std::string_view word) { ids.push_back(static_cast<TokenId>(word.size())); });
  }
  std::string_view token_bytes(TokenId) const override { return {}; }

 private:
  PreTokenizers steps_;
};

/// Counts the words of texts.
class WordCounter final : public TextWork {
 public:
  WordCounter(const Words& words, std::int64_t most_bytes) : words_(words), most_bytes_(most_bytes) {}

  void begin(std::size_t texts) override {
    if (found_.size() < texts) found_.resize(texts);
  }
  void run(std::size_t number, std::span<const TextSegment> text, bool) override {
    Counts& found = found_[number];
    found.clear();
    std::string key;
    for (const TextSegment& segment : text) {
      words_.for_each(segment.text, [&](std::string_view word) {
        key = word;
        ++found[key];
      });
    }
  }
  /// In the order of the texts, so that what is dropped does not depend on the number of threads.
  void finish(std::size_t number, bool) override {
    for (const auto& [word, count] : found_[number]) {
      const auto [at, is_new] = counts_.try_emplace(word, 0);
      at->second += count;
      if (is_new) bytes_ += bytes_of(word);
    }
    found_[number].clear();
    for (std::int64_t rare = 1; bytes_ > most_bytes_; rare *= 2) drop(rare);
  }

  std::int64_t dropped() const { return dropped_; }
  /// The words, in the order of their bytes.
  std::vector<WordCount> take() {
    std::vector<WordCount> words;
    words.reserve(counts_.size());
    while (!counts_.empty()) {
      auto node = counts_.extract(counts_.begin());
      words.push_back({std::move(node.key()), node.mapped()});
    }
    std::ranges::sort(words, {}, &WordCount::bytes);
    return words;
  }

 private:
  /// With what the table needs for it.
  static std::int64_t bytes_of(const std::string& word) {
    return 72 + (word.size() < 16 ? 0 : static_cast<std::int64_t>(word.size()) + 17);
  }

  /// Drops words that were seen at most `rare` times, until half of the memory is free.
  void drop(std::int64_t rare) {
    std::erase_if(counts_, [&](const auto& entry) {
      if (entry.second > rare) return false;
      bytes_ -= bytes_of(entry.first);
      dropped_ += entry.second;
      return true;
    });
  }

  const Words& words_;
  std::int64_t most_bytes_, bytes_ = 0, dropped_ = 0;
  std::vector<Counts> found_;  // by text
  Counts counts_;
};

std::vector<WordCount> count_words(std::span<const std::string> inputs, const TrainTokenizerOptions& options,
                                   TrainTokenizerReport& report) {
  const std::vector<InputPath> files = require_files(inputs, report.skipped);
  std::uint64_t total = 0;
  for (const InputPath& file : files) {
    std::error_code failed;
    const std::uintmax_t bytes = fs::file_size(file.path, failed);
    if (!failed) total += bytes;
  }
  const Words words(options.pattern);
  WordCounter counter(words, options.word_bytes);
  ByteProgress progress("counting words", total);
  for (const InputPath& file : files) {
    if (for_each_text(file, words, options.records, report.skipped, counter,
                      [&](std::uint64_t bytes) { progress.add(bytes); }))
      ++report.files;
  }
  progress.finish();
  if (report.files == 0) fail_without_text(inputs, report.skipped);
  report.dropped_words = counter.dropped();
  return counter.take();
}

void check_special(const std::vector<std::string>& special) {
  for (std::size_t i = 0; i < special.size(); ++i) {
    const bool is_new = std::find(special.begin(), special.begin() + static_cast<std::ptrdiff_t>(i),
                                  special[i]) == special.begin() + static_cast<std::ptrdiff_t>(i);
    // Shorter ones are those of bytes, or may be taken for them.
    if (!is_new || special[i].size() < 3 || !is_utf8(special[i])) {
      throw ConfigError(error_message("--special", "'" + printable(special[i]) + "'",
                                      "texts that differ, of at least 3 bytes",
                                      is_new ? "another" : "it twice"));
    }
  }
}

}  // namespace

TrainTokenizerReport train_tokenizer(std::span<const std::string> inputs, const fs::path& output,
                                     const TrainTokenizerOptions& options) {
  check_special(options.bpe.special);
  require_replaceable("--output", output, options.overwrite);
  const auto least = static_cast<std::int64_t>(256 + options.bpe.special.size());
  if (options.bpe.vocab_size < least) {
    throw ConfigError(error_message(
        "--vocab-size", "", "at least " + std::to_string(least) + ", the 256 bytes and the special tokens",
        std::to_string(options.bpe.vocab_size)));
  }
  TrainTokenizerReport report;
  const std::vector<WordCount> words = count_words(inputs, options, report);
  report.words = std::ssize(words);
  Console console(STDERR_FILENO);
  StatusLine line(console);
  const LearnedBpe bpe = train_bpe(words, options.bpe, [&](std::int64_t tokens) {
    line.update([&] {
      return describe_progress("learning", tokens, options.bpe.vocab_size, "tokens", line.elapsed());
    });
  });
  line.finish();
  report.tokens = std::ssize(bpe.tokens);
  report.merges = std::ssize(bpe.merges);
  write_file_durably(output, tokenizer_json_of(bpe, options.bpe.special.size(), options.pattern));
  return report;
}

}  // namespace moh
