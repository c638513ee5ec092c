#include "train/tasks/language/benchmark/records.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/tasks/language/benchmark/json_value.h"

using namespace moh;

namespace {

using Records = std::vector<BenchmarkRecord>;

Records parse(RecordFileKind kind, const std::string& text, const RecordFormat& format = {}) {
  return parse_records("file", text, kind, format);
}

std::string text_of(const BenchmarkRecord& record, std::string_view key) {
  const FieldValue* value = record.fields.find(key);
  return value == nullptr ? "no such field" : value->text;
}

void check_refused(RecordFileKind kind, const std::string& text, const std::string& message,
                   const RecordFormat& format = {}) {
  INFO(text);
  CHECK_THROWS_WITH(parse(kind, text, format), Catch::Contains(message));
  CHECK_THROWS_AS(parse(kind, text, format), DataError);
}

}  // namespace

TEST_CASE("benchmark: JSON Lines keep order, numbers as written, and the line") {
  const Records records = parse(RecordFileKind::kJsonLines,
                                "\xef\xbb\xbf{\"b\": \"x\", \"a\": [1, 2.50, true, null]}\r\n\n {\"c\": {}}");
  REQUIRE(records.size() == 2);
  CHECK(records[0].place == ":1");
  CHECK(records[1].place == ":3");
  CHECK(records[0].fields.entries[0].key == "b");
  const std::vector<FieldValue>& items = records[0].fields.entries[1].value.items;
  REQUIRE(items.size() == 4);
  CHECK(items[1].text == "2.50");
  CHECK(items[2].kind == FieldValue::Kind::kBool);
  CHECK(items[3].kind == FieldValue::Kind::kNull);
}

TEST_CASE("benchmark: a JSON file is a list of records") {
  const Records records = parse(RecordFileKind::kJson, "[{\"a\": 1},\n {\"a\": 2}]");
  REQUIRE(records.size() == 2);
  CHECK(records[1].place == ": record 2");
  check_refused(RecordFileKind::kJson, "{\"a\": 1}", "expected a JSON list of records");
  check_refused(RecordFileKind::kJson, "[{}, 5]", "file: record 2: expected a JSON object, found 5");
}

TEST_CASE("benchmark: a CSV has quotes, lines within them, and its names in the first row or elsewhere") {
  const std::string text = ",Question,A\n0,\"one, \"\"two\"\"\nthree\",x\r\n\r\n1,plain \"inner\" text,\n";
  const Records records = parse(RecordFileKind::kCsv, text);
  REQUIRE(records.size() == 2);
  CHECK(text_of(records[0], "Question") == "one, \"two\"\nthree");
  CHECK(text_of(records[0], "") == "0");
  CHECK(records[0].place == ":2");
  CHECK(records[1].place == ":5");
  CHECK(text_of(records[1], "Question") == "plain \"inner\" text");
  CHECK(text_of(records[1], "A").empty());
  const Records named = parse(RecordFileKind::kCsv, "q,1\nr,2", {{"question", "answer"}, ""});
  REQUIRE(named.size() == 2);
  CHECK(text_of(named[0], "question") == "q");
  CHECK(text_of(named[1], "answer") == "2");
}

TEST_CASE("benchmark: a text is one document, or one from each line that begins one") {
  const std::string text = "\n = A = \n\n text \n = = Part = = \n\n = B = \n more \n";
  const Records whole = parse(RecordFileKind::kText, text);
  REQUIRE(whole.size() == 1);
  CHECK(text_of(whole[0], "page") == text);
  const Records pages = parse(RecordFileKind::kText, text, {{}, "^\\s*= (?!= ).*(?<!=) =\\s*$"});
  REQUIRE(pages.size() == 2);
  CHECK(text_of(pages[0], "page") == " = A = \n\n text \n = = Part = = \n");
  CHECK(text_of(pages[1], "page") == " = B = \n more \n");
  CHECK(pages[1].place == ":7");
}

TEST_CASE("benchmark: broken records are refused by file and line") {
  check_refused(RecordFileKind::kJsonLines, "{\"a\": 1}\n{\"a\": }",
                "file:2: expected JSON, found '}' at byte 6");
  check_refused(RecordFileKind::kJsonLines, "{\"a\": ", "file:1: expected JSON, found its end at byte 6");
  check_refused(RecordFileKind::kJsonLines, "{\"a\": 1, \"a\": 2}",
                "file:1: expected no key twice, found 'a'");
  check_refused(RecordFileKind::kJsonLines, "[1]",
                "file:1: record: expected a JSON object, found a list of 1");
  check_refused(RecordFileKind::kJsonLines, "{\"a\":" + std::string(40, '[') + std::string(40, ']') + "}",
                "at most 32 levels of nesting");
  check_refused(RecordFileKind::kJsonLines, std::string(1'000'000, '['), "at most 32 levels of nesting");
  check_refused(RecordFileKind::kJsonLines, "\n\n", "file: records: expected one or more, found none");
  check_refused(RecordFileKind::kJsonLines, "{\"a\": 1}\n{\"a\": \"\xff\"}", "file:2: text: expected UTF-8");
  check_refused(RecordFileKind::kCsv, "a,b\n1\n", "file:2: row: expected 2 fields, found 1");
  check_refused(RecordFileKind::kCsv, "a,b\n1,\"x", "file:2: field: expected a closing \"");
  check_refused(RecordFileKind::kCsv, "a,b\n1,\"x\"y\n",
                "file:2: field: expected a comma or the end of the line");
  check_refused(RecordFileKind::kCsv, "a,a\n1,2\n",
                "file:1: first row: expected names of columns, none twice");
  check_refused(RecordFileKind::kCsv, "a,b\n", "expected one or more, found none");
  check_refused(RecordFileKind::kText, " \n \n", "file:1: file: expected a document, found none");
}

TEST_CASE("benchmark: a file's name says what it is") {
  const TemporaryFolder folder;
  const std::string jsonl = write_file(folder / "a.jsonl", "{\"a\": 1}\n"),
                    csv = write_file(folder / "a.csv", "a\n1\n"),
                    parquet = write_file(folder / "a.parquet", "PAR1");
  CHECK(read_records(jsonl, {}) != read_records(csv, {}));
  CHECK(text_of(read_records(csv, {}).front(), "a") == "1");
  CHECK_THROWS_WITH(read_records(parquet, {}),
                    Catch::Contains("a.parquet: expected .jsonl, .json, .csv or .txt, found .parquet"));
  CHECK_THROWS_AS(read_records(folder / "missing.csv", {}), DataError);
}
