#include "train/tools/eval/benchmark_report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>

#include "train/io/durable_file.h"
#include "train/io/printable.h"
#include "train/log/format.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;
using Published = BenchmarkTask::Published;

std::string dumped(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_share(const MetricValue& score) {
  return !score.name.ends_with("perplexity") && score.name != "bits_per_byte";
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

void write_scores(std::ostream& out, const BenchmarkResult& result) {
  std::string name = result.task.name, shots = std::to_string(result.shots),
              questions = std::to_string(result.num_items());
  if (result.task.kind == BenchmarkKind::kGroup) shots = questions = "";
  for (const MetricValue& score : result.scores) {
    char numbers[64];
    std::snprintf(numbers, sizeof numbers, "%10.4f  ", score.value);
    out << padded(name, 18) << padded(shots, 7) << padded(questions, 11) << padded(score.name, 30) << numbers
        << (score.error ? "+- " + format_fixed(*score.error, 4) : "") << '\n';
    name = shots = questions = "";
  }
}

/// A row of the comparison with the paper: a model, and its score in each benchmark.
struct PaperRow {
  Published model;  ///< whose score is not used
  std::vector<std::string> scores;
};

bool same_model(const Published& a, const Published& b) {
  return a.table == b.table && a.model == b.model && a.tokens == b.tokens;
}

std::vector<PaperRow> paper_rows(const std::vector<const BenchmarkResult*>& results) {
  std::vector<PaperRow> rows;
  for (std::size_t i = 0; i < results.size(); ++i) {
    for (const Published& published : results[i]->task.published) {
      auto row =
          std::ranges::find_if(rows, [&](const PaperRow& r) { return same_model(r.model, published); });
      if (row == rows.end())
        row = rows.insert(row, {published, std::vector<std::string>(results.size(), "-")});
      row->scores[i] = format_fixed(published.score, 1);
    }
  }
  std::ranges::stable_sort(rows, {}, [](const PaperRow& row) { return row.model.table; });
  return rows;
}

void write_paper(std::ostream& out, const std::vector<BenchmarkResult>& all) {
  std::vector<const BenchmarkResult*> results;
  for (const BenchmarkResult& result : all) {
    if (!result.task.published.empty() && is_share(result.score())) results.push_back(&result);
  }
  if (results.empty()) return;
  constexpr std::size_t kName = 36, kColumn = 3;
  const auto column = [&](std::size_t i, const std::string& text) {
    const std::size_t width = std::max<std::size_t>(results[i]->task.name.size(), 5) + kColumn;
    return std::string(width - std::min(width, text.size()), ' ') + text;
  };
  out << "\nbeside the MoH paper (arXiv 2410.11842), percent\n" << padded("", kName);
  for (std::size_t i = 0; i < results.size(); ++i) out << column(i, results[i]->task.name);
  out << '\n' << padded("this model", kName);
  for (std::size_t i = 0; i < results.size(); ++i)
    out << column(i, format_fixed(100 * results[i]->score().value, 1));
  for (const PaperRow& row : paper_rows(results)) {
    std::string name = "table " + row.model.table + ", " + row.model.model;
    if (row.model.tokens > 0) name += ", " + std::to_string(row.model.tokens) + "B tokens";
    out << '\n' << padded(name, kName);
    for (std::size_t i = 0; i < results.size(); ++i) out << column(i, row.scores[i]);
  }
  out << '\n';
}

Json scores_of(const std::vector<MetricValue>& scores) {
  Json object = Json::object();
  for (const MetricValue& score : scores)
    object[score.name] = {{"value", score.value},
                          {"stderr", score.error ? Json(*score.error) : Json(nullptr)}};
  return object;
}

Json subjects_of(const BenchmarkResult& result) {
  Json subjects = Json::object();
  for (std::size_t s = 0; s < result.task.subjects.size(); ++s) {
    subjects[result.task.subjects[s].name] = {
        {"questions", result.items[s].size()},
        {"scores", scores_of(aggregate(result.task, {result.items[s]}, {result.results[s]}))}};
  }
  return subjects;
}

Json object_of(const BenchmarkResult& result) {
  Json object;
  if (result.task.kind == BenchmarkKind::kGroup)
    object["members"] = result.task.members;
  else
    object = {{"shots", result.shots}, {"questions", result.num_items()}, {"cut", result.num_cut()}};
  object["score"] = result.score().name;
  object["scores"] = scores_of(result.scores);
  if (!result.task.subjects.empty()) object["subjects"] = subjects_of(result);
  object["paper"] = Json::array();
  for (const Published& row : result.task.published) {
    Json entry = {{"table", row.table}, {"model", row.model}};
    if (row.tokens > 0) entry["tokens_b"] = row.tokens;
    entry["score"] = row.score;
    object["paper"].push_back(std::move(entry));
  }
  return object;
}

Json sample_of(const BenchmarkResult& result, std::size_t subject, std::size_t index) {
  const BenchmarkItem& item = result.items[subject][index];
  const ItemResult& found = result.results[subject][index];
  Json object = {{"benchmark", result.task.name}};
  if (!result.task.subjects.empty()) object["subject"] = result.task.subjects[subject].name;
  object.update({{"index", index}, {"place", item.place}, {"contexts", item.contexts}});
  if (result.task.kind == BenchmarkKind::kGeneration) {
    object.update({{"text", found.text}, {"references", item.references}});
  } else {
    object.update({{"continuations", item.continuations},
                   {"log_likelihoods", found.log_likelihoods},
                   {"is_greedy", found.is_greedy}});
  }
  if (!item.correct.empty()) object["correct"] = item.correct;
  object["scores"] = Json::object();
  const std::vector<std::string> names = reported_metrics(result.task);
  for (std::size_t i = 0; i < names.size(); ++i) object["scores"][names[i]] = found.values[i];
  return object;
}

}  // namespace

void write_table(std::ostream& out, const BenchmarkReport& report) {
  out << "checkpoint        " << printable_path(report.checkpoint) << "\nmodel             "
      << printable_lines(report.model) << '\n'
      << padded("benchmark", 18) << padded("shots", 7) << padded("questions", 11) << padded("score", 30)
      << "     value  standard error\n";
  for (const BenchmarkResult& result : report.results) write_scores(out, result);
  for (const BenchmarkResult& result : report.results) {
    if (result.num_cut() > 0)
      out << result.task.name << ": " << result.num_cut() << " of " << result.num_items()
          << " questions lost the beginning of their context, as the model has too few positions\n";
  }
  if (report.limit > 0)
    out << "The first " << report.limit << " questions of each alone (--limit): no result to report.\n";
  write_paper(out, report.results);
  if (!report.complete) out << "stopped: further benchmarks were not run\n";
}

void write_json_line(std::ostream& out, const BenchmarkReport& report) {
  Json object = {{"checkpoint", report.checkpoint},
                 {"model", report.model},
                 {"seed", report.seed},
                 {"limit", report.limit},
                 {"complete", report.complete}};
  object["benchmarks"] = Json::object();
  for (const BenchmarkResult& result : report.results)
    object["benchmarks"][result.task.name] = object_of(result);
  out << dumped(object) << '\n';
}

void write_samples(const std::filesystem::path& file, const BenchmarkReport& report) {
  std::string lines;
  for (const BenchmarkResult& result : report.results) {
    for (std::size_t s = 0; s < result.items.size(); ++s) {
      for (std::size_t i = 0; i < result.items[s].size(); ++i)
        lines += dumped(sample_of(result, s, i)) + '\n';
    }
  }
  write_file_durably(file, lines);
}

void list_benchmarks(std::ostream& out) {
  for (const BuiltInBenchmark& built_in : built_in_benchmarks()) {
    const BenchmarkTask task = parse_benchmark(std::string(built_in.name), std::string(built_in.yaml));
    std::string files;
    for (const std::string& file : task.data.files) files += (files.empty() ? "" : " or ") + file;
    for (const std::string& member : task.members) files += (files.empty() ? "" : ", ") + member;
    out << padded(task.name, 18)
        << (task.kind == BenchmarkKind::kGroup ? "" : std::to_string(task.shots.number) + "-shot, ") << files
        << '\n';
  }
}

}  // namespace moh
