#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/trainer/task/data/input_files.h"

namespace moh {

/// A sentence and its translation.
struct TextPair {
  std::string source, target;

  bool operator==(const TextPair&) const = default;
};

/// A place of parallel text: two text files, line by line; or, without `target`, a file or folder that has
/// both sides.
struct ParallelSource {
  std::filesystem::path source, target;
};

struct ParallelOptions {
  /// Keys of the two texts in JSON Lines; "translation.de" is the key "de" of the object at "translation".
  std::string source_key = "source", target_key = "target";
  bool keep_equal = false;       ///< pairs whose sides are equal, which catalogs have for names and options
  bool keep_duplicates = false;  ///< pairs that were read before
};

/// Pairs that were left out, by reason.
class DroppedPairs {
 public:
  void add(std::string_view reason, std::int64_t count = 1);
  std::int64_t count() const;
  std::int64_t count(std::string_view reason) const;
  /// "120 duplicate, 3 empty", in the order in which the reasons came; "" if nothing was left out.
  std::string describe() const;

 private:
  std::vector<std::pair<std::string, std::int64_t>> counts_;
};

/// Reads sentence pairs in the order of the files. By its name, a file that has both sides is
///
/// - a message catalog (.mo, message_catalog.h),
/// - JSON Lines (.jsonl, .ndjson): an object per line, with texts at two keys,
/// - else tab-separated: the source, a tab and the translation on each line; further columns are not read.
///
/// A folder stands for the files of these kinds in it and in its folders (.mo, .jsonl, .ndjson, .tsv), in the
/// order of their names. Two text files have as many lines. Text may be compressed (.gz, .zst). Spaces around
/// a sentence are removed, and runs of spaces, tabs and line ends within it become a space, so that a
/// sentence is a line.
///
/// Pairs are left out, and counted, as "empty" (either side), "equal" (both sides), "duplicate" (of a pair
/// that was read before, by 128 bits of hash), and for reasons of catalogs (message_catalog.h). Memory: one
/// line, or one catalog, and 16 bytes for each pair unless duplicates are kept.
class ParallelReader {
 public:
  /// Throws DataError if a path is missing or a folder has no such file.
  explicit ParallelReader(std::vector<ParallelSource> sources, ParallelOptions options = {});
  ~ParallelReader();
  ParallelReader(ParallelReader&&) noexcept;

  /// The next pair that is kept; false at the end. Throws DataError naming file and line for a file that
  /// cannot be read, is damaged or binary, a line without a tab, a record without the keys, and two files
  /// that have different numbers of lines.
  bool next(TextPair& pair);

  /// Pairs that next() has left out so far.
  const DroppedPairs& dropped() const;
  /// Files of folders that were not read, such as damaged catalogs, by reason.
  const SkippedFiles& skipped() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moh
