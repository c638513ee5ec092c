#include "train/tasks/language/benchmark/benchmark_items.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"

using namespace moh;

namespace {

using Texts = std::vector<std::string>;

/// A benchmark of two choices over records.jsonl, with examples of examples.jsonl.
BenchmarkTask small_task() {
  return parse_benchmark("small.yaml", R"(name: small
kind: multiple_choice
data:
  files: [missing.jsonl, records.jsonl]
  examples: [examples.jsonl]
  source: somewhere
prompt:
  description: "About {{title // 'all'}}.\n"
  text: "Q: {{q}}\nA:"
  choices: ["no {{q}}", "yes"]
  answer: "{{answer}}"
  separator: "\n\n"
metrics: [acc]
score: acc
)");
}

/// A folder with six questions and ten examples.
struct Files {
  Files() {
    write_file(folder / "records.jsonl", lines("q", 6));
    write_file(folder / "examples.jsonl", lines("e", 10));
  }
  static std::string lines(const std::string& letter, int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += "{\"q\": \"" + letter + std::to_string(i) + "\", \"answer\": " + std::to_string(i % 2) + "}\n";
    return text;
  }
  ItemOptions options() const { return {.folder = folder.path()}; }

  TemporaryFolder folder;
};

std::vector<BenchmarkItem> items_of(const BenchmarkTask& task, const ItemOptions& options) {
  return make_items(task, options).front();
}

/// The examples of a context, "e3 e1", and its question.
std::string examples_in(const std::string& context) {
  std::string found;
  for (std::size_t at = context.find("Q: "); at != std::string::npos; at = context.find("Q: ", at + 1))
    found += (found.empty() ? "" : " ") + context.substr(at + 3, 2);
  return found;
}

Texts all_examples(const BenchmarkTask& task, const ItemOptions& options) {
  Texts found;
  for (const BenchmarkItem& item : items_of(task, options))
    found.push_back(examples_in(item.contexts.front()));
  return found;
}

void check_answer(const std::string& answer, const std::vector<bool>& expected) {
  INFO(answer);
  const Files files;
  write_file(files.folder / "records.jsonl", "{\"q\": \"q0\", \"answer\": " + answer + "}");
  CHECK(items_of(small_task(), files.options()).front().correct == expected);
}

void check_bad_record(const std::string& record, const std::string& message) {
  const Files files;
  write_file(files.folder / "records.jsonl", "{\"q\": \"q0\", \"answer\": 0}\n" + record + "\n");
  CHECK_THROWS_WITH(make_items(small_task(), files.options()),
                    Catch::Contains("records.jsonl:2: " + message));
  CHECK_THROWS_AS(make_items(small_task(), files.options()), DataError);
}

}  // namespace

TEST_CASE("benchmark: a question has a context, its choices, and which of them is right") {
  const Files files;
  const std::vector<BenchmarkItem> items = items_of(small_task(), files.options());
  REQUIRE(items.size() == 6);
  CHECK(items[3].contexts == Texts{"About all.\nQ: q3\nA:"});
  CHECK(items[3].continuations == Texts{" no q3", " yes"});
  CHECK(items[3].correct == std::vector<bool>{false, true});
  CHECK(items[3].characters == std::vector<std::int64_t>{5, 3});
  CHECK(items[3].place == (files.folder / "records.jsonl").string() + ":4");
  CHECK(items_of(small_task(), {.folder = files.folder.path(), .limit = 2}).size() == 2);
}

TEST_CASE("benchmark: an answer is a position, a text, a truth value, or a label for each choice") {
  check_answer("1", {false, true});
  check_answer("\"1\"", {false, true});
  check_answer("\"yes\"", {false, true});
  check_answer("\"no q0\"", {true, false});
  check_answer("true", {false, true});
  check_answer("false", {true, false});
  check_answer("[1, 1]", {true, true});
  check_answer("[0, 1]", {false, true});
  check_bad_record("{\"q\": \"q\", \"answer\": 2}",
                   "answer: expected one of 2 choices, or its position from 0, found 2");
  check_bad_record("{\"q\": \"q\", \"answer\": \"maybe\"}", "answer: expected one of 2 choices");
  check_bad_record("{\"q\": \"q\", \"answer\": [0, 0]}", "answer: expected a right choice, found none");
  check_bad_record("{\"q\": \"q\", \"answer\": [1]}", "answer: expected 2 labels, one for each choice");
  check_bad_record("{\"answer\": 1}", "expected the field q, found a map with the keys 'answer'");
}

TEST_CASE("benchmark: the first examples, or drawn ones, others for each question") {
  const Files files;
  BenchmarkTask task = small_task();
  task.shots = {.number = 2, .draw = ShotDraw::kFirst};
  CHECK(items_of(task, files.options())[2].contexts ==
        Texts{"About all.\nQ: e0\nA: no e0\n\nQ: e1\nA: yes\n\nQ: q2\nA:"});
  task.shots.draw = ShotDraw::kRandom;
  // [r.sample(range(10), 2) for _ in range(6)] of Python's random.Random(1234)
  CHECK(all_examples(task, files.options()) ==
        Texts{"e7 e1 q0", "e0 e1 q1", "e9 e0 q2", "e1 e9 q3", "e5 e3 q4", "e0 e9 q5"});
  task.shots.draw = ShotDraw::kRandomPlusOne;
  // [r.sample(range(10), 3)[:2] for _ in range(6)]
  CHECK(all_examples(task, files.options()) ==
        Texts{"e7 e1 q0", "e1 e0 q1", "e1 e5 q2", "e0 e9 q3", "e5 e7 q4", "e2 e1 q5"});
  ItemOptions other = files.options();
  other.seed = 5;
  CHECK(all_examples(task, other) != all_examples(task, files.options()));
  other.shots = 0;
  CHECK(all_examples(task, other).front() == "q0");
}

TEST_CASE("benchmark: a question is none of its own examples") {
  const Files files;
  BenchmarkTask task = small_task();
  task.data.examples = {"records.jsonl"};
  for (const ShotDraw draw : {ShotDraw::kFirst, ShotDraw::kRandom, ShotDraw::kRandomPlusOne}) {
    for (const std::int64_t shots : {1, 3, 5}) {
      task.shots = {.number = shots, .draw = draw};
      for (const BenchmarkItem& item : items_of(task, files.options())) {
        const std::string all = examples_in(item.contexts.front());
        CHECK(std::ssize(all) == 3 * shots + 2);
        CHECK(all.find(all.substr(all.size() - 2)) == all.size() - 2);
      }
    }
  }
  task.shots.number = 6;
  CHECK_THROWS_WITH(make_items(task, files.options()),
                    Catch::Contains("examples: expected 7 or more for 6 shots, found 6"));
}

TEST_CASE("benchmark: examples of the YAML itself") {
  const Files files;
  BenchmarkTask task = small_task();
  task.data.examples = {};
  CHECK_THROWS_WITH(make_items(task, {.folder = files.folder.path(), .shots = 1}),
                    Catch::Contains("small: shots: expected 0, as the benchmark has no examples, found 1"));
  task.shots = {.number = 1, .draw = ShotDraw::kFirst, .records = "{\"q\": \"x1\", \"answer\": 1}"};
  CHECK(all_examples(task, files.options()).front() == "x1 q0");
  task.shots.records = "{\"q\": ";
  CHECK_THROWS_WITH(make_items(task, files.options()),
                    Catch::Contains("shots.records of small:1: expected JSON"));
}

TEST_CASE("benchmark: contexts of their own for each choice") {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl",
             "{\"s\": \"Ann saw _ there.\", \"a\": \"x\", \"b\": \"yy\", \"answer\": \"2\"}");
  const BenchmarkTask task = parse_benchmark("wino.yaml", R"(name: wino
kind: multiple_choice
data: {files: [a.jsonl], examples: [a.jsonl]}
prompt:
  contexts: ["{{s | before('_')}}{{a}}", "{{s | before('_')}}{{b}}"]
  target: "{{s | after('_') | strip}}"
  answer: "{{answer | index('1', '2')}}"
metrics: [acc]
score: acc
)");
  const BenchmarkItem item = items_of(task, {.folder = folder.path()}).front();
  CHECK(item.contexts == Texts{"Ann saw x", "Ann saw yy"});
  CHECK(item.continuations == Texts{" there.", " there."});
  CHECK(item.correct == std::vector<bool>{false, true});
}

TEST_CASE("benchmark: subjects have files and a title of their own") {
  const Files files;
  BenchmarkTask task = small_task();
  task.data.files = {"{{name}}.jsonl"};
  task.subjects = {{"records", "questions"}, {"examples", "examples"}};
  const auto items = make_items(task, files.options());
  REQUIRE(items.size() == 2);
  CHECK(items[0].size() == 6);
  CHECK(items[1].size() == 10);
  CHECK(items[1][0].contexts.front() == "About examples.\nQ: e0\nA:");
}

TEST_CASE("benchmark: missing files are all named, with where to get them") {
  const TemporaryFolder folder;
  BenchmarkTask task = small_task();
  task.shots.number = 1;
  const auto check_says = [&](const std::string& part) {
    CHECK_THROWS_WITH(make_items(task, {.folder = folder.path()}), Catch::Contains(part));
  };
  check_says(
      "files of small: expected in this folder, found none of\n  missing.jsonl or records.jsonl\n  "
      "examples.jsonl\nsomewhere");
  task.data.files = {"{{name}}.jsonl"};
  for (int i = 0; i < 8; ++i) task.subjects.push_back({"part" + std::to_string(i), ""});
  check_says("\n  part0.jsonl\n  examples.jsonl\n  part1.jsonl");
  check_says("and 11 more");
  check_says("tasks=[small:SUBJECT] takes single subjects");
  CHECK_THROWS_AS(make_items(task, {.folder = folder.path()}), DataError);
}

TEST_CASE("benchmark: labels may lie in a file of their own") {
  const Files files;
  BenchmarkTask task = small_task();
  task.prompt.answer = "{{label}}";
  task.data.labels = {"labels.lst"};
  CHECK_THROWS_WITH(
      make_items(task, files.options()),
      Catch::Contains("label: expected it in each record, or in a file labels.lst, found neither"));
  write_file(files.folder / "labels.lst", "0\n1\n0\n1\n1\n0\n");
  const std::vector<BenchmarkItem> items = items_of(task, files.options());
  CHECK(items[4].correct == std::vector<bool>{false, true});
  CHECK(items[5].correct == std::vector<bool>{true, false});
  write_file(files.folder / "labels.lst", "0\n1\n");
  CHECK_THROWS_WITH(make_items(task, files.options()),
                    Catch::Contains("labels.lst: lines: expected 6, as ") && Catch::Contains("found 2"));
}

TEST_CASE("benchmark: texts for perplexity, and right answers of generation") {
  const TemporaryFolder folder;
  write_file(folder / "a.jsonl", "{\"page\": \" a  b\\u00e9 , c \", \"answer\": [\"x\", 5]}");
  BenchmarkTask task;
  task.kind = BenchmarkKind::kPerplexity;
  task.data.files = {"a.jsonl"};
  task.prompt.text = "{{page | replace(' , ', ', ')}}";
  task.prompt.counted = "{{page}}";
  const BenchmarkItem text = items_of(task, {.folder = folder.path(), .shots = 4}).front();
  CHECK(text.continuations == Texts{" a  b\xc3\xa9, c "});
  CHECK(text.words == 6);  // len(re.split(r"\s+", page))
  CHECK(text.text_bytes == 12);
  task.kind = BenchmarkKind::kGeneration;
  task.prompt.target = "{{answer}}";
  const BenchmarkItem question = items_of(task, {.folder = folder.path()}).front();
  CHECK(question.references == Texts{"x", "5"});
  CHECK(question.continuations.empty());
}
