#include "train/tasks/language/benchmark/benchmark_task.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <set>
#include <span>
#include <utility>

#include "core/error.h"
#include "train/config/layers.h"
#include "train/config/read_fields.h"
#include "train/config/suggest.h"
#include "train/io/printable.h"
#include "train/tasks/language/benchmark/benchmark_metrics.h"
#include "train/tasks/language/benchmark/text_regex.h"
#include "train/tasks/language/benchmark/text_template.h"

namespace moh {

std::span<const std::string_view> names_of(BenchmarkKind) {
  static constexpr std::array<std::string_view, 5> kNames = {"multiple_choice", "continuation", "generation",
                                                             "perplexity", "group"};
  return kNames;
}

std::span<const std::string_view> names_of(ShotDraw) {
  static constexpr std::array<std::string_view, 3> kNames = {"random", "random_plus_one", "first"};
  return kNames;
}

namespace {

using config::at_least;
using config::choice_of;
using config::Problems;
using config::Rules;
using config::Section;

constexpr double kMostShots = 1000, kMostNewTokens = 1 << 16;

void describe_subject(BenchmarkTask::Subject& subject, Section& fields) {
  fields.field("name", subject.name, "Name of the part, as in its files' names.");
  fields.field("title", subject.title, "As the description calls it.");
}

void describe_extraction(BenchmarkTask::Extraction& extraction, Section& fields) {
  fields.field("name", extraction.name, "Name of the score.");
  fields.field("regex", extraction.regex, "What the answer looks like.");
  fields.field("last", extraction.last, "Whether the last match counts.");
}

void describe_published(BenchmarkTask::Published& row, Section& fields) {
  fields.field("table", row.table, "Table of the paper.");
  fields.field("model", row.model, "Preset of the model.");
  fields.field("tokens", row.tokens, at_least(0), "Tokens of its training, in billions.");
  fields.field("score", row.score, config::from_up_to(0, 100), "Percent.");
}

Section describe(BenchmarkTask& task) {
  Section root("", "");
  root.field("name", task.name, "Name.");
  root.field("about", task.about, "What it is.");
  root.field("kind", choice_of(task.kind), "What is asked.");
  root.field("members", task.members, "Benchmarks of a group.");
  Section& data = root.section_named("data");
  data.field("files", task.data.files, "The first of these that exists.");
  data.field("examples", task.data.examples, "The first of these that exists.");
  data.field("labels", task.data.labels, "The first of these that exists.");
  data.field("example_labels", task.data.example_labels, "The first of these that exists.");
  data.field("columns", task.data.columns, "Names of a CSV's columns.");
  data.field("document_start", task.data.document_start, "Lines with which a document begins.");
  data.field("source", task.data.source, "Where to get the files.");
  root.list("subjects", task.subjects, describe_subject, "Parts.");
  Section& prompt = root.section_named("prompt");
  prompt.field("description", task.prompt.description, "Before everything else.");
  prompt.field("text", task.prompt.text, "Context.");
  prompt.field("contexts", task.prompt.contexts, "A context for each choice.");
  prompt.field("target", task.prompt.target, "What follows.");
  prompt.field("choices", task.prompt.choices, "Choices.");
  prompt.field("answer", task.prompt.answer, "The right choice.");
  prompt.field("delimiter", task.prompt.delimiter, "Between context and target.");
  prompt.field("separator", task.prompt.separator, "After each example.");
  prompt.field("counted", task.prompt.counted, "Whose words and bytes are counted.");
  Section& shots = root.section_named("shots");
  shots.field("number", task.shots.number, at_least(0).capped(kMostShots), "Examples.");
  shots.field("draw", choice_of(task.shots.draw), "Which of the examples.");
  shots.field("records", task.shots.records, "Examples as JSON Lines.");
  Section& generation = root.section_named("generation");
  generation.field("tokens", task.generation.tokens, at_least(1).capped(kMostNewTokens), "New tokens.");
  generation.field("stop", task.generation.stop, "Texts that end an answer.");
  root.list("extractions", task.extractions, describe_extraction, "How answers are found.");
  Section& match = root.section_named("match");
  match.field("ignored", task.match.ignored, "Regular expressions.");
  match.field("ignore_case", task.match.ignore_case, "Case.");
  match.field("ignore_punctuation", task.match.ignore_punctuation, "Punctuation.");
  root.field("metrics", task.metrics, "Scores.");
  root.field("score", task.score, "The score that stands for the benchmark.");
  root.list("paper", task.published, describe_published, "What the paper reports.");
  return root;
}

/// Whether a text can be read as a template or a regular expression; reports the key if not.
template <class Read>
void try_reading(const std::string& key, const Read& read, Rules& rules) {
  try {
    read();
  } catch (const ConfigError& error) {
    rules.refuse({key}, "what can be read", error.what());
  }
}

void check_texts(const BenchmarkTask& task, Rules& rules) {
  const auto check_template = [&](const std::string& key, const std::string& text) {
    try_reading(
        key, [&] { static_cast<void>(TextTemplate(text)); }, rules);
  };
  const auto check_templates = [&](const std::string& key, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) check_template(key, text);
  };
  const auto check_regex = [&](const std::string& key, const std::string& text) {
    if (!text.empty())
      try_reading(
          key, [&] { static_cast<void>(TextRegex(text, key)); }, rules);
  };
  check_templates("data.files", task.data.files);
  check_templates("data.examples", task.data.examples);
  check_templates("data.labels", task.data.labels);
  check_templates("data.example_labels", task.data.example_labels);
  check_template("prompt.description", task.prompt.description);
  check_template("prompt.text", task.prompt.text);
  check_templates("prompt.contexts", task.prompt.contexts);
  check_template("prompt.target", task.prompt.target);
  check_templates("prompt.choices", task.prompt.choices);
  check_template("prompt.answer", task.prompt.answer);
  check_template("prompt.counted", task.prompt.counted);
  check_regex("data.document_start", task.data.document_start);
  for (std::size_t i = 0; i < task.extractions.size(); ++i)
    check_regex("extractions[" + std::to_string(i) + "].regex", task.extractions[i].regex);
  for (const std::string& regex : task.match.ignored) check_regex("match.ignored", regex);
}

/// Whether a kind of benchmark needs a key, or has no use for it.
enum class Use { kNone, kMay, kMust };

struct KeyUse {
  std::string key;
  bool given;
  std::array<Use, 5> of;  ///< by kind
};

std::vector<KeyUse> uses_of(const BenchmarkTask& task) {
  const Use no = Use::kNone, may = Use::kMay, must = Use::kMust;
  // In the order of BenchmarkKind: choice, continuation, generation, perplexity, group.
  return {{"data.files", !task.data.files.empty(), {must, must, must, must, no}},
          {"data.examples", !task.data.examples.empty(), {may, may, may, no, no}},
          {"subjects", !task.subjects.empty(), {may, may, may, may, no}},
          {"members", !task.members.empty(), {no, no, no, no, must}},
          {"prompt.description", !task.prompt.description.empty(), {may, may, may, no, no}},
          {"prompt.text", !task.prompt.text.empty(), {may, must, must, must, no}},
          {"prompt.contexts", !task.prompt.contexts.empty(), {may, no, no, no, no}},
          {"prompt.target", !task.prompt.target.empty(), {may, must, must, no, no}},
          {"prompt.choices", !task.prompt.choices.empty(), {may, no, no, no, no}},
          {"prompt.answer", !task.prompt.answer.empty(), {must, no, no, no, no}},
          {"prompt.counted", !task.prompt.counted.empty(), {no, no, no, may, no}},
          {"shots.number", task.shots.number > 0, {may, may, may, no, no}},
          {"shots.records", !task.shots.records.empty(), {may, may, may, no, no}},
          {"generation.stop", !task.generation.stop.empty(), {no, no, may, no, no}},
          {"extractions", !task.extractions.empty(), {no, no, may, no, no}},
          {"match.ignored", !task.match.ignored.empty(), {no, no, may, no, no}},
          {"metrics", !task.metrics.empty(), {must, must, must, must, no}},
          {"score", !task.score.empty(), {must, must, must, must, no}}};
}

void check_kind(const BenchmarkTask& task, Rules& rules) {
  const auto kind = static_cast<std::size_t>(task.kind);
  const std::string of_kind = " of kind " + std::string(names_of(task.kind)[kind]);
  for (const KeyUse& use : uses_of(task)) {
    if (use.of[kind] == Use::kMust && !use.given)
      rules.refuse({use.key, "kind"}, "a value, for a benchmark" + of_kind, "none");
    if (use.of[kind] == Use::kNone && use.given)
      rules.refuse({use.key, "kind"}, "no value, for a benchmark" + of_kind, "one", "remove the key");
  }
  if (task.kind != BenchmarkKind::kMultipleChoice) return;
  const bool contexts = !task.prompt.contexts.empty();
  const auto either = [&](const char* key, bool given, bool wanted) {
    if (given == wanted) return;
    rules.refuse({key, "kind"},
                 std::string("prompt.text with prompt.choices, or prompt.contexts with prompt.target"),
                 given ? "it beside the other" : "none of it");
  };
  either("prompt.text", !task.prompt.text.empty(), !contexts);
  either("prompt.choices", !task.prompt.choices.empty(), !contexts);
  either("prompt.target", !task.prompt.target.empty(), contexts);
}

void check_metrics(const BenchmarkTask& task, Rules& rules) {
  const std::vector<std::string> known = metrics_of(task.kind);
  for (const std::string& metric : task.metrics) {
    if (std::ranges::find(known, metric) != known.end()) continue;
    const std::string nearest = config::nearest_name(metric, known);
    rules.refuse({"metrics"}, "scores of its kind", printable(metric),
                 nearest.empty() ? "" : "did you mean " + nearest + "?");
  }
  const std::vector<std::string> reported = reported_metrics(task);
  if (task.kind == BenchmarkKind::kGroup || std::ranges::find(reported, task.score) != reported.end()) return;
  std::string all;
  for (const std::string& metric : reported) all += (all.empty() ? "" : ", ") + metric;
  rules.refuse({"score"}, "one of " + all, "'" + printable(task.score) + "'");
}

void check_names(const BenchmarkTask& task, Rules& rules) {
  if (task.name.empty() || task.name.find_first_of(":,/ ") != std::string::npos)
    rules.refuse({"name"}, "a name without : , / and spaces", "'" + printable(task.name) + "'");
  std::set<std::string> seen;
  for (const auto& [name, title] : task.subjects) {
    if (name.empty() || !seen.insert(name).second || name.find_first_of("/\\") != std::string::npos)
      rules.refuse({"subjects"}, "names without /, none twice", "'" + printable(name) + "'");
  }
  seen.clear();
  for (const BenchmarkTask::Extraction& extraction : task.extractions) {
    if (!seen.insert(extraction.name).second)
      rules.refuse({"extractions"}, "names, none twice", "'" + printable(extraction.name) + "'");
  }
  if (std::ranges::any_of(task.generation.stop, &std::string::empty))
    rules.refuse({"generation.stop"}, "texts", "an empty one");
}

BenchmarkTask task_of(config::Layers& layers, Problems& problems) {
  BenchmarkTask task;
  config::GivenKeys given;
  for (const config::Value& layer : layers.roots) config::read_fields(describe(task), layer, given, problems);
  if (layers.complete) {
    Rules rules(given, {&layers.sources.front()}, "", problems);
    check_names(task, rules);
    check_kind(task, rules);
    check_texts(task, rules);
    check_metrics(task, rules);
  }
  problems.throw_if_any();
  return task;
}

bool is_file_name(const std::string& name) {
  return name.ends_with(".yaml") || name.ends_with(".yml") || name.find('/') != std::string::npos;
}

/// "NAME" and "SUBJECT" of "NAME:SUBJECT". A path may have a colon, too.
std::pair<std::string, std::string> split_subject(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || is_file_name(text.substr(colon + 1))) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

BenchmarkTask benchmark_called(const std::string& name) {
  if (is_file_name(name)) return read_benchmark(name);
  const std::vector<BuiltInBenchmark>& all = built_in_benchmarks();
  const auto found = std::ranges::find(all, name, &BuiltInBenchmark::name);
  if (found != all.end())
    return parse_benchmark("the benchmark " + std::string(name) + " of moh", std::string(found->yaml));
  std::vector<std::string> names;
  std::string listed;
  for (const BuiltInBenchmark& each : all) {
    names.emplace_back(each.name);
    listed += (listed.empty() ? "" : ", ") + names.back();
  }
  const std::string nearest = config::nearest_name(name, names);
  throw ConfigError(error_message(
      "tasks", "", "benchmarks or YAML files of benchmarks", "'" + printable(name) + "'",
      (nearest.empty() ? "" : "did you mean " + nearest + "? ") + std::string("There are ") + listed));
}

BenchmarkTask::Subject subject_called(const std::string& name, const BenchmarkTask& task) {
  const auto found = std::ranges::find(task.subjects, name, &BenchmarkTask::Subject::name);
  if (found != task.subjects.end()) return *found;
  std::vector<std::string> names;
  for (const BenchmarkTask::Subject& subject : task.subjects) names.push_back(subject.name);
  const std::string nearest = config::nearest_name(name, names);
  throw ConfigError(
      error_message("tasks", task.name, "one of its " + std::to_string(names.size()) + " subjects",
                    "'" + printable(name) + "'", nearest.empty() ? "" : "did you mean " + nearest + "?"));
}

/// Adds benchmarks in the order in which they are named first.
class Selection {
 public:
  /// Returns the name that the benchmark gives itself.
  std::string add(const std::string& text, int depth) {
    constexpr int kMaxDepth = 4;
    if (depth > kMaxDepth)
      throw ConfigError(error_message("tasks", printable(text), "groups that end", "one within itself"));
    const auto [name, subject] = split_subject(text);
    BenchmarkTask task = benchmark_called(name);
    if (!subject.empty()) task.subjects = {subject_called(subject, task)};
    std::string own_name = task.name;
    std::vector<std::string> members = task.members;
    const bool is_new = std::ranges::find(tasks_, own_name, &BenchmarkTask::name) == tasks_.end();
    put(std::move(task), !subject.empty());
    if (members.empty() || !is_new) return own_name;
    for (std::string& member : members) member = add(member, depth + 1);
    called(own_name).members = members;
    require_shares(own_name, members);
    return own_name;
  }
  std::vector<BenchmarkTask> take() { return std::move(tasks_); }

 private:
  BenchmarkTask& called(const std::string& name) {
    return *std::ranges::find(tasks_, name, &BenchmarkTask::name);
  }

  void put(BenchmarkTask task, bool one_subject) {
    const auto known = std::ranges::find(tasks_, task.name, &BenchmarkTask::name);
    const std::string name = task.name;
    if (known == tasks_.end())
      tasks_.push_back(std::move(task));
    else if (!one_subject && task.members.empty())
      *known = std::move(task);
    else if (one_subject && !whole_.contains(name))
      add_subject(task.subjects.front(), *known);
    if (!one_subject) whole_.insert(name);
  }

  static void add_subject(const BenchmarkTask::Subject& subject, BenchmarkTask& task) {
    if (std::ranges::find(task.subjects, subject.name, &BenchmarkTask::Subject::name) == task.subjects.end())
      task.subjects.push_back(subject);
  }

  void require_shares(const std::string& group, const std::vector<std::string>& members) {
    for (const std::string& member : members) {
      const std::string& score = called(member).score;
      if (score.ends_with("perplexity") || score == "bits_per_byte")
        throw ConfigError(error_message(group, "members", "benchmarks whose scores are shares",
                                        std::string(member).append(" with ").append(score)));
    }
  }

  std::vector<BenchmarkTask> tasks_;
  std::set<std::string> whole_;  // those that were named without a subject
};

}  // namespace

BenchmarkTask read_benchmark(const std::string& path) {
  config::Layers layers;
  Problems problems;
  config::load_layers(path, {}, layers, problems);
  return task_of(layers, problems);
}

BenchmarkTask parse_benchmark(const std::string& name, std::string text) {
  config::Layers layers;
  Problems problems;
  config::load_text(name, std::move(text), {}, layers, problems);
  return task_of(layers, problems);
}

std::vector<BenchmarkTask> find_benchmarks(const std::vector<std::string>& names) {
  Selection selection;
  for (const std::string& name : names) selection.add(name, 0);
  return selection.take();
}

}  // namespace moh
