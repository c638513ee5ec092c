#include "train/tasks/language/benchmark/records.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/error.h"
#include "train/io/input_file.h"
#include "train/io/printable.h"
#include "train/tasks/language/benchmark/json_value.h"
#include "train/tasks/language/benchmark/text_regex.h"

namespace moh {

namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

[[noreturn]] void fail(const std::string& name, std::int64_t line, std::string_view what,
                       std::string_view expected, std::string_view found, std::string_view fix = "") {
  throw DataError(error_message(name + ":" + std::to_string(line), what, expected, found, fix));
}

/// Cuts a text into lines, without their ends.
class Lines {
 public:
  explicit Lines(std::string_view text) : rest_(text) {}

  bool next(std::string_view& line) {
    if (rest_.empty()) return false;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }
  std::int64_t number() const { return number_; }

 private:
  std::string_view rest_;
  std::int64_t number_ = 0;
};

std::string place_of(std::int64_t line) {
  return ":" + std::to_string(line);
}

BenchmarkRecord checked_record(FieldValue value, const std::string& name, std::int64_t line) {
  if (value.kind != FieldValue::Kind::kMap) fail(name, line, "record", "a JSON object", describe(value));
  return {std::move(value), place_of(line)};
}

std::vector<BenchmarkRecord> json_lines(const std::string& name, std::string_view text) {
  std::vector<BenchmarkRecord> records;
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = name + ":" + std::to_string(lines.number());
    records.push_back(checked_record(parse_json_value(line, where), name, lines.number()));
  }
  return records;
}

std::vector<BenchmarkRecord> json_list(const std::string& name, std::string_view text) {
  FieldValue list = parse_json_value(text, name);
  if (list.kind != FieldValue::Kind::kList)
    fail(name, 1, "file", "a JSON list of records", describe(list),
         "a file with a JSON object in each line is called .jsonl");
  std::vector<BenchmarkRecord> records;
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    const std::string place = ": record " + std::to_string(i + 1);
    if (list.items[i].kind != FieldValue::Kind::kMap)
      throw DataError(error_message(name + place, "", "a JSON object", describe(list.items[i])));
    records.push_back({std::move(list.items[i]), place});
  }
  return records;
}

/// Reads the rows of a CSV.
class CsvRows {
 public:
  CsvRows(const std::string& name, std::string_view text) : name_(name), text_(text) {}

  /// The fields of the next row; false at the end. Empty lines are skipped.
  bool next(std::vector<std::string>& fields) {
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) end_line();
    if (at_ == text_.size()) return false;
    row_line_ = line_;
    fields.clear();
    while (true) {
      fields.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted() : plain());
      if (at_ < text_.size() && text_[at_] == ',') {
        ++at_;
        continue;
      }
      if (at_ < text_.size()) end_line();
      return true;
    }
  }
  /// The line in which the row began.
  std::int64_t line() const { return row_line_; }

 private:
  void end_line() {
    if (text_.substr(at_).starts_with("\r\n")) ++at_;
    ++at_;
    ++line_;
  }
  std::string plain() {
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    return std::string(text_.substr(std::exchange(at_, end), end - at_));
  }
  std::string quoted() {
    const std::int64_t begin = line_;
    std::string field;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"' && !text_.substr(at_).starts_with("\"\"")) break;
      if (text_[at_] == '"') ++at_;
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    if (at_ == text_.size()) fail(name_, begin, "field", "a closing \"", "the end of the file");
    ++at_;
    if (at_ < text_.size() && std::string_view(",\r\n").find(text_[at_]) == std::string_view::npos)
      fail(name_, line_, "field", "a comma or the end of the line after a closing \"",
           "'" + printable(text_.substr(at_, 20)) + "'");
    return field;
  }

  const std::string& name_;
  std::string_view text_;
  std::size_t at_ = 0;
  std::int64_t line_ = 1, row_line_ = 1;
};

std::vector<BenchmarkRecord> csv(const std::string& name, std::string_view text,
                                 std::vector<std::string> columns) {
  CsvRows rows(name, text);
  std::vector<std::string> fields;
  if (columns.empty() && rows.next(fields)) {
    columns = fields;
    for (auto column = columns.begin(); column != columns.end(); ++column) {
      if (std::find(columns.begin(), column, *column) != column)
        fail(name, rows.line(), "first row", "names of columns, none twice", "'" + printable(*column) + "'");
    }
  }
  std::vector<BenchmarkRecord> records;
  while (rows.next(fields)) {
    if (fields.size() != columns.size())
      fail(name, rows.line(), "row", std::to_string(columns.size()) + " fields",
           std::to_string(fields.size()));
    BenchmarkRecord record{{FieldValue::Kind::kMap, {}, {}, {}}, place_of(rows.line())};
    for (std::size_t i = 0; i < fields.size(); ++i)
      record.fields.entries.push_back({columns[i], FieldValue::of_text(std::move(fields[i]))});
    records.push_back(std::move(record));
  }
  return records;
}

/// Documents, each from a line that matches `start` to before the next. What is white space alone is none.
std::vector<BenchmarkRecord> documents(const std::string& name, std::string_view text,
                                       const std::string& start) {
  std::optional<TextRegex> begins;
  if (!start.empty()) begins.emplace(start, "document_start");
  std::vector<BenchmarkRecord> records;
  std::size_t begin = 0;
  std::int64_t begin_line = 1;
  const auto add = [&](std::size_t end) {
    const std::string_view page = text.substr(begin, end - begin);
    if (page.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
    records.push_back({{FieldValue::Kind::kMap, {}, {}, {{"page", FieldValue::of_text(std::string(page))}}},
                       place_of(begin_line)});
  };
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    if (!begins || !begins->matches(line)) continue;
    const auto here = static_cast<std::size_t>(line.data() - text.data());
    // The line end before a document belongs to none.
    if (here > 0) add(here - 1);
    begin = here;
    begin_line = lines.number();
  }
  add(text.size());
  if (records.empty()) fail(name, 1, "file", "a document", "none");
  return records;
}

std::optional<RecordFileKind> kind_of(const std::filesystem::path& path) {
  const std::string end = path.extension().string();
  if (end == ".jsonl" || end == ".ndjson") return RecordFileKind::kJsonLines;
  if (end == ".json") return RecordFileKind::kJson;
  if (end == ".csv") return RecordFileKind::kCsv;
  if (end == ".txt" || end == ".tokens" || end == ".raw") return RecordFileKind::kText;
  return std::nullopt;
}

void require_utf8(const std::string& name, std::string_view text) {
  if (is_utf8(text)) return;
  Lines lines(text);
  for (std::string_view line; lines.next(line);) {
    if (!is_utf8(line)) fail(name, lines.number(), "text", "UTF-8", "'" + printable(line, 40) + "'");
  }
}

}  // namespace

std::vector<BenchmarkRecord> parse_records(const std::string& name, std::string_view text,
                                           RecordFileKind kind, const RecordFormat& format) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  require_utf8(name, text);
  std::vector<BenchmarkRecord> records;
  switch (kind) {
    case RecordFileKind::kJsonLines:
      records = json_lines(name, text);
      break;
    case RecordFileKind::kJson:
      records = json_list(name, text);
      break;
    case RecordFileKind::kCsv:
      records = csv(name, text, format.columns);
      break;
    case RecordFileKind::kText:
      records = documents(name, text, format.document_start);
      break;
  }
  if (records.empty()) throw DataError(error_message(name, "records", "one or more", "none"));
  return records;
}

std::vector<BenchmarkRecord> read_records(const std::filesystem::path& path, const RecordFormat& format) {
  const std::string name = printable_path(path);
  const std::optional<RecordFileKind> kind = kind_of(path);
  if (!kind)
    throw DataError(error_message(name, "", ".jsonl, .json, .csv or .txt", path.extension().string(),
                                  "convert it; docs/evaluation.md says how"));
  return parse_records(name, read_text_file(path, InputKind::kData, kMostBytes), *kind, format);
}

}  // namespace moh
