#include "train/families/translation/data/parallel_text.h"

#include <xxhash.h>

#include <algorithm>
#include <optional>
#include <span>
#include <unordered_set>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/families/language/data/document_reader.h"
#include "train/families/language/data/record_text.h"
#include "train/families/translation/data/message_catalog.h"
#include "train/families/translation/data/text_lines.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// A file, or two, whose pairs are read one by one, as they lie there.
class PairFile {
 public:
  virtual ~PairFile() = default;
  virtual bool next(TextPair& pair) = 0;
};

class TwoFiles final : public PairFile {
 public:
  explicit TwoFiles(const ParallelSource& files)
      : source_(files.source.string()), target_(files.target.string()) {}

  bool next(TextPair& pair) override {
    const bool has_source = source_.next(pair.source), has_target = target_.next(pair.target);
    if (has_source == has_target) return has_source;
    const TextLines &longer = has_source ? source_ : target_, &shorter = has_source ? target_ : source_;
    throw DataError(error_message(
        longer.path(), "", "as many lines as in " + shorter.path() + ", " + std::to_string(shorter.count()),
        "more", "each line of one file translates the same line of the other"));
  }

 private:
  TextLines source_, target_;
};

class TabSeparated final : public PairFile {
 public:
  explicit TabSeparated(const std::string& path) : lines_(path) {}

  bool next(TextPair& pair) override {
    if (!lines_.next(line_)) return false;
    const std::size_t tab = line_.find('\t');
    if (tab == std::string::npos && !one_line(line_).empty())
      throw DataError(error_message(lines_.where(), "", "a sentence, a tab and its translation",
                                    "no tab in '" + printable(line_, 60) + "'",
                                    "two text files are named apart, one for each language"));
    const std::size_t begin = std::min(tab, line_.size() - 1) + 1;
    pair.source = line_.substr(0, tab);
    pair.target = line_.substr(begin, line_.find('\t', begin) - begin);
    return true;
  }

 private:
  TextLines lines_;
  std::string line_;
};

/// The template of a record's text at a key.
std::string template_of(const std::string& key) {
  if (key.empty() || key.find_first_of("{}") != std::string::npos)
    throw ConfigError(
        error_message("JSON Lines", "key of a sentence", "a key without braces", "'" + printable(key) + "'"));
  return "{" + key + "}";
}

class JsonLines final : public PairFile {
 public:
  JsonLines(const std::string& path, const ParallelOptions& options)
      : lines_(path),
        records_({.text_key = "",
                  .prompt = template_of(options.source_key),
                  .response = template_of(options.target_key)}) {}

  bool next(TextPair& pair) override {
    do {
      if (!lines_.next(part_.text)) return false;
    } while (one_line(part_.text).empty());
    part_.line = lines_.count();
    std::vector<TextSegment> texts = records_.segments(lines_.path(), part_, RecordKind::kPrompt);
    pair = {std::move(texts[0].text), std::move(texts[1].text)};
    return true;
  }

 private:
  TextLines lines_;
  RecordReader records_;
  DocumentPart part_;
};

class Catalog final : public PairFile {
 public:
  Catalog(const fs::path& path, DroppedPairs& dropped) : pairs_(read_message_catalog(path, dropped)) {}

  bool next(TextPair& pair) override {
    if (next_ == pairs_.size()) return false;
    pair = std::move(pairs_[next_++]);
    return true;
  }

 private:
  std::vector<TextPair> pairs_;
  std::size_t next_ = 0;
};

bool is_catalog(const fs::path& path) {
  return path.extension() == ".mo";
}

bool is_tab_separated(const fs::path& path) {
  const std::string ending = path.extension().string();
  return (ending == ".gz" || ending == ".zst" ? path.stem() : path).extension() == ".tsv";
}

bool has_pairs_by_name(const std::string& path) {
  return is_catalog(path) || is_json_lines(path) || is_tab_separated(path);
}

/// The pairs that have been read, as 128-bit hashes.
class SeenPairs {
 public:
  /// Whether a pair is new.
  bool add(const TextPair& pair) {
    const std::string text = pair.source + '\n' + pair.target;
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return hashes_.insert({hash.low64, hash.high64}).second;
  }

 private:
  struct LowHalf {
    std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& hash) const { return hash.first; }
  };
  std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, LowHalf> hashes_;
};

}  // namespace

void DroppedPairs::add(std::string_view reason, std::int64_t count) {
  const auto known = std::ranges::find(counts_, reason, &std::pair<std::string, std::int64_t>::first);
  if (known != counts_.end())
    known->second += count;
  else
    counts_.emplace_back(reason, count);
}

std::int64_t DroppedPairs::count() const {
  std::int64_t sum = 0;
  for (const auto& [reason, count] : counts_) sum += count;
  return sum;
}

std::int64_t DroppedPairs::count(std::string_view reason) const {
  const auto known = std::ranges::find(counts_, reason, &std::pair<std::string, std::int64_t>::first);
  return known == counts_.end() ? 0 : known->second;
}

std::string DroppedPairs::describe() const {
  std::string text;
  for (const auto& [reason, count] : counts_)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + reason;
  return text;
}

class ParallelReader::Impl {
 public:
  Impl(std::vector<ParallelSource> sources, ParallelOptions options) : options_(std::move(options)) {
    for (ParallelSource& source : sources) {
      if (source.target.empty())
        add_inputs(source.source.string());
      else
        files_.push_back({std::move(source), /*named=*/true});
    }
  }

  bool next(TextPair& pair) {
    while (open_next()) {
      while (file_->next(pair)) {
        if (keep(pair)) return true;
      }
      file_.reset();
    }
    return false;
  }

  const DroppedPairs& dropped() const { return dropped_; }
  const SkippedFiles& skipped() const { return skipped_; }

 private:
  struct Input {
    ParallelSource source;
    bool named = false;
  };

  void add_inputs(const std::string& path) {
    const std::size_t before = files_.size();
    for (InputPath& input : list_input_files(std::span(&path, 1), skipped_)) {
      if (input.named || has_pairs_by_name(input.path))
        files_.push_back({{std::move(input.path), {}}, input.named});
      else
        skipped_.add("of another format", input.path);
    }
    if (files_.size() == before)
      throw DataError(error_message(printable_path(path), "",
                                    "a folder with message catalogs (.mo), JSON Lines (.jsonl, .ndjson) or "
                                    "tab-separated text (.tsv)",
                                    "none of these"));
  }

  std::unique_ptr<PairFile> opened(const Input& input) {
    const std::string path = input.source.source.string();
    if (!input.source.target.empty()) return std::make_unique<TwoFiles>(input.source);
    if (is_json_lines(path)) return std::make_unique<JsonLines>(path, options_);
    if (!is_catalog(path)) return std::make_unique<TabSeparated>(path);
    try {
      return std::make_unique<Catalog>(path, dropped_);
    } catch (const DataError& error) {
      if (input.named) throw;
      log_debug(error.what());
      skipped_.add("unreadable catalog", path);
      return nullptr;
    }
  }

  /// Opens the next file unless one is open; false if there is none.
  bool open_next() {
    while (file_ == nullptr && next_ < files_.size()) file_ = opened(files_[next_++]);
    return file_ != nullptr;
  }

  bool keep(TextPair& pair) {
    pair = {one_line(pair.source), one_line(pair.target)};
    const auto drop = [&](std::string_view reason) {
      dropped_.add(reason);
      return false;
    };
    if (pair.source.empty() || pair.target.empty()) return drop("empty");
    if (!options_.keep_equal && pair.source == pair.target) return drop("equal");
    if (!options_.keep_duplicates && !seen_.add(pair)) return drop("duplicate");
    return true;
  }

  ParallelOptions options_;
  std::vector<Input> files_;
  std::size_t next_ = 0;  // file to open
  std::unique_ptr<PairFile> file_;
  SeenPairs seen_;
  DroppedPairs dropped_;
  SkippedFiles skipped_;
};

ParallelReader::ParallelReader(std::vector<ParallelSource> sources, ParallelOptions options)
    : impl_(std::make_unique<Impl>(std::move(sources), std::move(options))) {}
ParallelReader::~ParallelReader() = default;
ParallelReader::ParallelReader(ParallelReader&&) noexcept = default;

bool ParallelReader::next(TextPair& pair) {
  return impl_->next(pair);
}
const DroppedPairs& ParallelReader::dropped() const {
  return impl_->dropped();
}
const SkippedFiles& ParallelReader::skipped() const {
  return impl_->skipped();
}

}  // namespace moh
