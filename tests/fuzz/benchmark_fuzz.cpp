#include <array>
#include <string>
#include <string_view>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/tasks/language/benchmark/benchmark_items.h"
#include "train/tasks/language/benchmark/benchmark_metrics.h"

namespace {

/// The line between a benchmark's YAML and its records, before the end of their file's name.
constexpr std::string_view kMark = "\n%%% ";

/// Scores the questions as if all choices were equally probable, and the model wrote its context again.
void score(const moh::BenchmarkTask& task, const moh::BenchmarkItem& item) {
  moh::ItemResult result;
  result.log_likelihoods.assign(item.continuations.size(), -1.0);
  result.is_greedy.assign(item.continuations.size(), true);
  result.text = item.contexts.front().substr(0, 2000);
  result.values = item_values(task, item, result);
  aggregate(task, {{item}}, {{result}});
}

}  // namespace

/// A benchmark, and the records that it is about; its examples are the questions themselves.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const moh::TemporaryFolder folder;
  static constexpr std::array<std::string_view, 4> kEnds = {"jsonl", "json", "csv", "txt"};
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t mark = std::min(input.find(kMark), input.size());
  std::string_view records = input.substr(std::min(mark + kMark.size(), input.size()));
  std::string file = "records.jsonl";
  for (const std::string_view end : kEnds) {
    if (!records.starts_with(end) || records.substr(end.size(), 1) != "\n") continue;
    file = "records." + std::string(end);
    records.remove_prefix(end.size() + 1);
    break;
  }
  try {
    moh::BenchmarkTask task = moh::parse_benchmark("benchmark.yaml", std::string(input.substr(0, mark)));
    if (task.kind == moh::BenchmarkKind::kGroup) return 0;
    moh::write_file(folder / file, std::string(records));
    task.data.files = {file};
    if (!task.data.examples.empty()) task.data.examples = {file};
    if (task.subjects.size() > 1) task.subjects.resize(1);
    moh::ItemOptions options{.folder = folder.path(), .limit = 3};
    if (task.shots.number > 2) options.shots = 2;
    for (const auto& subject : make_items(task, options))
      for (const moh::BenchmarkItem& item : subject) score(task, item);
  } catch (const moh::ConfigError&) {
  } catch (const moh::DataError&) {
  }
  return 0;
}
