#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/tasks/language/benchmark/field_value.h"

namespace moh {

/// A question of a benchmark, as its file has it.
struct BenchmarkRecord {
  FieldValue fields;  ///< a map
  std::string place;  ///< in its file, as it follows the file's name in messages: ":12", or ": record 12"

  bool operator==(const BenchmarkRecord& other) const { return fields == other.fields; }
};

/// What the name of a file does not say about its records.
struct RecordFormat {
  std::vector<std::string>
      columns;  ///< of a CSV whose first row is a record; empty: the first row names them
  /// Of text: a regular expression of the lines with which documents begin; empty: the file is one.
  std::string document_start;
};

/// The kinds of files that are read, by their names.
enum class RecordFileKind {
  kJsonLines,  ///< .jsonl, .ndjson: an object in each line; empty lines are skipped
  kJson,       ///< .json: a list of objects
  kCsv,        ///< .csv, of RFC 4180; a row is a map of texts
  kText        ///< .txt, .tokens, .raw: documents, each a map with the key "page"
};

/// Reads the records of a file of at most 1 GiB. Files are untrusted. Throws DataError that names the file
/// and the line: for a file that cannot be read, another kind of file, what is no JSON, no UTF-8 or no CSV,
/// nesting beyond 32 levels, a key twice, a row with another number of fields than the first, a file without
/// a record.
std::vector<BenchmarkRecord> read_records(const std::filesystem::path& path, const RecordFormat& format);
/// The same for a text; messages call it `name`.
std::vector<BenchmarkRecord> parse_records(const std::string& name, std::string_view text,
                                           RecordFileKind kind, const RecordFormat& format);

}  // namespace moh
