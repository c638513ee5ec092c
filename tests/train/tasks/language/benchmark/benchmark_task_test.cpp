#include "train/tasks/language/benchmark/benchmark_task.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "models/find_preset.h"
#include "models/llm/llama_presets.h"
#include "tests/support/temporary_folder.h"
#include "train/config/layers.h"
#include "train/tasks/language/benchmark/benchmark_metrics.h"

using namespace moh;

namespace {

constexpr const char* kSmall = R"(name: small
kind: multiple_choice
data:
  files: [small.jsonl]
prompt:
  text: "{{question}}"
  choices: ["{{a}}", "{{b}}"]
  answer: "{{answer}}"
metrics: [acc]
score: acc
)";

/// kSmall with a text in it replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string yaml = kSmall;
  yaml.replace(yaml.find(from), from.size(), to);
  return yaml;
}

void check_refused(const std::string& yaml, const std::string& message) {
  INFO(yaml);
  CHECK_THROWS_WITH(parse_benchmark("small.yaml", yaml), Catch::Contains(message));
  CHECK_THROWS_AS(parse_benchmark("small.yaml", yaml), ConfigError);
}

std::vector<std::string> names_of(const std::vector<std::string>& asked) {
  std::vector<std::string> names;
  for (const BenchmarkTask& task : find_benchmarks(asked)) {
    names.push_back(task.name);
    if (!task.subjects.empty() && task.subjects.size() < 10) {
      for (const BenchmarkTask::Subject& subject : task.subjects) names.back() += ":" + subject.name;
    }
  }
  return names;
}

using Names = std::vector<std::string>;

BenchmarkTask built_in(const std::string& name) {
  return find_benchmarks({name}).front();
}

/// The score that the paper reports of a model in a benchmark; -1 if it does not.
double published(const BenchmarkTask& task, const std::string& table, const std::string& model,
                 std::int64_t tokens) {
  for (const BenchmarkTask::Published& row : task.published) {
    if (row.table == table && row.model == model && row.tokens == tokens) return row.score;
  }
  return -1;
}

/// The rows of a table of results.yaml: a map for each, as texts.
std::vector<std::map<std::string, std::string>> rows_of(const config::Value& root, const std::string& id) {
  std::vector<std::map<std::string, std::string>> rows;
  const auto at = [](const config::Value& map, const std::string& key) -> const config::Value& {
    const auto found = std::ranges::find(map.entries, key, &config::Entry::key);
    REQUIRE(found != map.entries.end());
    return found->value;
  };
  for (const config::Value& table : at(root, "tables").items) {
    if (at(table, "id").text != id) continue;
    for (const config::Value& row : at(table, "rows").items) {
      for (rows.emplace_back(); const config::Entry& entry : row.entries)
        rows.back()[entry.key] = entry.value.text;
    }
  }
  REQUIRE_FALSE(rows.empty());
  return rows;
}

}  // namespace

TEST_CASE("benchmark: those of the paper and their groups can be read, under the names of their files") {
  CHECK(built_in_benchmarks().size() >= 23);
  for (const BuiltInBenchmark& each : built_in_benchmarks()) {
    INFO(each.name);
    const BenchmarkTask task = parse_benchmark(std::string(each.name), std::string(each.yaml));
    CHECK(task.name == each.name);
    CHECK_FALSE(task.about.empty());
    if (task.kind != BenchmarkKind::kGroup) CHECK_FALSE(task.data.source.empty());
    for (const BenchmarkTask::Published& row : task.published) {
      INFO(row.model);
      CHECK(find_preset(llama_presets(), row.model) != nullptr);
    }
  }
  CHECK(built_in("mmlu").subjects.size() == 57);
  CHECK(built_in("ceval").subjects.size() == 52);
  CHECK(built_in("cmmlu").subjects.size() == 67);
}

TEST_CASE("benchmark: the shots of the paper's tables") {
  // Those of table 3 are without examples, and so are the same benchmarks in table 4.
  const std::map<std::string, std::int64_t> shots = {{"mmlu", 5},  {"ceval", 5},         {"cmmlu", 5},
                                                     {"gsm8k", 8}, {"hellaswag", 10},    {"boolq", 32},
                                                     {"nq", 32},   {"arc_challenge", 25}};
  for (const char* group : {"paper_table_3", "paper_table_4", "paper_table_g"}) {
    for (const BenchmarkTask& task : find_benchmarks({group})) {
      INFO(task.name);
      const auto found = shots.find(task.name);
      CHECK(task.shots.number == (found == shots.end() ? 0 : found->second));
    }
  }
  CHECK(find_benchmarks({"paper_table_3"}).front().members.size() == 6);
  CHECK(find_benchmarks({"paper_table_4"}).front().members.size() == 14);
  CHECK(find_benchmarks({"paper_table_g"}).front().members.size() == 14);
}

TEST_CASE("benchmark: the published scores are those of the paper's tables") {
  const char* const shared = std::getenv("MOH_SHARED");
  if (shared == nullptr) {
    WARN("skipped: MOH_SHARED names no folder with reference/results.yaml");
    return;
  }
  config::Layers layers;
  config::Problems problems;
  config::load_layers(std::string(shared) + "/reference/results.yaml", {}, layers, problems);
  problems.throw_if_any();
  int compared = 0;
  const std::map<std::string, std::string> tables = {
      {"3", "llm_from_scratch"}, {"4", "llama3_main"}, {"G", "llama3_stage1"}};
  for (const auto& [table, id] : tables) {
    for (const auto& row : rows_of(layers.roots.front(), id)) {
      const std::int64_t tokens = row.contains("tokens_b") ? std::stoll(row.at("tokens_b")) : 0;
      for (const auto& [key, value] : row) {
        if (key == "method" || key == "model" || key == "tokens_b" || key == "head_pct") continue;
        const std::string name = key != "average" ? key
                                 : table == "G"   ? "paper_table_g"
                                                  : "paper_table_" + table;
        INFO(table << " " << name << " " << row.at("model"));
        CHECK(published(built_in(name), table, row.at("model"), tokens) == Approx(std::stod(value)));
        ++compared;
      }
    }
  }
  CHECK(compared == 9 * 7 + 2 * 15 + 2 * 15);
  int given = 0;
  for (const BuiltInBenchmark& each : built_in_benchmarks())
    given += static_cast<int>(built_in(std::string(each.name)).published.size());
  CHECK(given == compared);
}

TEST_CASE("benchmark: what users name is found, parts and groups once each") {
  CHECK(names_of({"sciq", "piqa", "sciq"}) == Names{"sciq", "piqa"});
  CHECK(names_of({"truthfulqa"}) == Names{"truthfulqa", "truthfulqa_mc1", "truthfulqa_mc2"});
  CHECK(names_of({"piqa", "paper_table_3"}) == Names{"piqa", "paper_table_3", "sciq", "winogrande",
                                                     "openbookqa", "logiqa", "truthfulqa", "truthfulqa_mc1",
                                                     "truthfulqa_mc2"});
  CHECK(names_of({"cmmlu:anatomy", "cmmlu:arts"}) == Names{"cmmlu:anatomy:arts"});
  CHECK(names_of({"cmmlu:anatomy", "cmmlu:anatomy"}) == Names{"cmmlu:anatomy"});
  CHECK(find_benchmarks({"cmmlu:anatomy", "cmmlu"}).front().subjects.size() == 67);
  CHECK(find_benchmarks({"cmmlu", "cmmlu:anatomy"}).front().subjects.size() == 67);

  const TemporaryFolder folder;
  const std::string file = write_file(folder / "my.yaml", kSmall);
  const std::string group =
      write_file(folder / "group.yaml", "name: mine\nkind: group\nmembers: [" + file + ", sciq]\n");
  CHECK(names_of({file, "sciq"}) == Names{"small", "sciq"});
  const std::vector<BenchmarkTask> found = find_benchmarks({group});
  REQUIRE(found.size() == 3);
  CHECK(found.front().members == Names{"small", "sciq"});
}

TEST_CASE("benchmark: an unknown name is refused with the nearest one") {
  CHECK_THROWS_WITH(find_benchmarks({"scqi"}), Catch::Contains("tasks: expected benchmarks or YAML files") &&
                                                   Catch::Contains("found 'scqi'; did you mean sciq?") &&
                                                   Catch::Contains("arc_challenge, arc_easy, boolq"));
  CHECK_THROWS_WITH(
      find_benchmarks({"cmmlu:anatmy"}),
      Catch::Contains(
          "tasks: cmmlu: expected one of its 67 subjects, found 'anatmy'; did you mean anatomy?"));
  CHECK_THROWS_AS(find_benchmarks({"sciq:anatomy"}), ConfigError);
  CHECK_THROWS_AS(find_benchmarks({"missing/file.yaml"}), ConfigError);
  const TemporaryFolder folder;
  const std::string path = (folder / "loop.yaml").string();
  write_file(folder / "loop.yaml", "name: loop\nkind: group\nmembers: [" + path + "]\n");
  CHECK(names_of({path}) == Names{"loop"});  // which is there already
  write_file(folder / "ppl.yaml", "name: mean\nkind: group\nmembers: [sciq, wikitext]\n");
  CHECK_THROWS_WITH(
      find_benchmarks({(folder / "ppl.yaml").string()}),
      Catch::Contains(
          "mean: members: expected benchmarks whose scores are shares, found wikitext with word_perplexity"));
}

TEST_CASE("benchmark: a YAML's mistakes are named with line and column") {
  CHECK_NOTHROW(parse_benchmark("small.yaml", kSmall));
  check_refused(changed("score: acc", "scores: acc"), "small.yaml:10:1: scores: unknown key");
  check_refused(changed("\"{{question}}\"", "\"{{question\""),
                "small.yaml:6:9: prompt.text: expected what can be read, found template: expected }}, |, //");
  check_refused(changed("multiple_choice", "multiple"),
                "small.yaml:2:7: kind: expected one of multiple_choice, continuation");
  check_refused(changed("metrics: [acc]", "metrics: [acc_nrm]"),
                "metrics: expected scores of its kind, found acc_nrm; did you mean acc_norm?");
  check_refused(changed("score: acc", "score: acc_norm"), "score: expected one of acc, found 'acc_norm'");
  check_refused(changed("  answer: \"{{answer}}\"\n", ""),
                "prompt.answer: expected a value, for a benchmark of kind multiple_choice, found none");
  check_refused(changed("  files: [small.jsonl]", "  columns: [a]"), "data.files: expected a value");
  check_refused(changed("name: small", "name: a:b"), "name: expected a name without : , / and spaces");
  check_refused(changed("metrics:", "generation: {stop: [x]}\nmetrics:"),
                "generation.stop: expected no value, for a benchmark of kind multiple_choice");
  check_refused(changed("metrics:", "shots: {number: -1}\nmetrics:"),
                "shots.number: expected an integer of at least 0");
  check_refused(changed("metrics:", "shots: {number: 1000000}\nmetrics:"), "the limit is 1000");
  check_refused(changed("metrics:", "match: {ignored: ['(']}\nmetrics:"), "match.ignored");
  check_refused(changed("metrics:", "subjects: [{name: a/b}]\nmetrics:"),
                "subjects: expected names without /");
  check_refused(changed("  choices: [\"{{a}}\", \"{{b}}\"]\n", ""),
                "prompt.choices: expected prompt.text with prompt.choices, or");
  check_refused(changed("metrics:", "paper: [{table: \"3\", model: llm_s, score: 120}]\nmetrics:"),
                "paper[0].score: expected");
  check_refused("name: x\nkind: group\n", "members: expected a value, for a benchmark of kind group");
  check_refused("[", "small.yaml");
}

TEST_CASE("benchmark: what is reported of generation has a score for each way to find an answer") {
  CHECK(reported_metrics(built_in("gsm8k")) ==
        Names{"exact_match,strict-match", "exact_match,flexible-extract"});
  CHECK(reported_metrics(built_in("nq")) == Names{"exact_match"});
  CHECK(reported_metrics(built_in("wikitext")) ==
        Names{"word_perplexity", "byte_perplexity", "bits_per_byte"});
}
