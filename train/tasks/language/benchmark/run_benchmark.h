#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "train/tasks/language/benchmark/benchmark_items.h"
#include "train/tasks/language/benchmark/benchmark_metrics.h"
#include "train/tasks/language/benchmark/benchmark_task.h"
#include "train/tasks/language/language_family.h"

namespace moh {

struct BenchmarkOptions {
  ItemOptions items;
  ScoreLimits limits;
  std::optional<std::int64_t> new_tokens;  ///< instead of a benchmark's generation.tokens
};

/// What a model achieves in a benchmark.
struct BenchmarkResult {
  BenchmarkTask task;
  std::int64_t shots = 0;
  std::vector<MetricValue> scores;  ///< of a group the "average" of its members
  // By subject; none of a group.
  std::vector<std::vector<BenchmarkItem>> items;
  std::vector<std::vector<ItemResult>> results;

  std::int64_t num_items() const;
  /// Questions whose contexts lost tokens, as the model has too few positions.
  std::int64_t num_cut() const;
  /// The score that stands for the benchmark.
  const MetricValue& score() const;
};

/// Questions that are done, and all. With parts of questions, for the estimate of the time that is left.
struct BenchmarkProgress {
  double done = 0;
  std::int64_t total = 0;
};
/// Called before each forward pass; returns whether to stop.
using StopBenchmark = FunctionRef<bool(const BenchmarkProgress&)>;

/// Runs a benchmark that is no group on `items`, those of make_items(). Deterministic: the same questions
/// give the same bits, with any number of threads. Returns nothing if `stop` returned true. Throws DataError
/// for a question that the tokenizer cannot express, with its place; ValueError for more new tokens than
/// positions.
std::optional<BenchmarkResult> run_benchmark(const LanguageModel& model, const BenchmarkTask& task,
                                             std::vector<std::vector<BenchmarkItem>> items,
                                             const BenchmarkOptions& options, StopBenchmark stop);

/// The unweighted mean of the scores of a group's members, which `results` contain.
BenchmarkResult average_of(const BenchmarkTask& group, const std::vector<BenchmarkResult>& results);

}  // namespace moh
