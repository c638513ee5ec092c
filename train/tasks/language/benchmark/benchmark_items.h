#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/tasks/language/benchmark/benchmark_task.h"

namespace moh {

/// A question as a model gets it.
struct BenchmarkItem {
  std::string place;                       ///< of its record: "sciq/test.json: record 12"
  std::vector<std::string> contexts;       ///< examples and question; one, or one for each continuation
  std::vector<std::string> continuations;  ///< the choices, the continuation or the text; none of generation
  std::vector<bool> correct;               ///< of the choices
  std::vector<std::int64_t> characters;    ///< of each choice, without the delimiter
  std::vector<std::int64_t> bytes;
  std::vector<std::string> references;     ///< right answers of generation
  std::int64_t words = 0, text_bytes = 0;  ///< that perplexities are of
};

struct ItemOptions {
  std::filesystem::path folder;       ///< of the benchmarks' files
  std::optional<std::int64_t> shots;  ///< instead of the benchmark's number of examples
  std::int64_t limit = 0;             ///< questions of each benchmark and subject, the first ones; 0: all
  std::uint64_t seed = 1234;          ///< of the draw of examples; that of lm-evaluation-harness
};

/// The questions of a benchmark that is no group, by subject; one list if it has none. Examples of few-shot
/// prompts are those that lm-evaluation-harness 0.4.13 draws with the same seed from the same records; where
/// they come from the questions' own file, a question is none of its own examples. Throws DataError: files
/// that are missing, all of them, with where to get them; records without a field, with the place of the
/// record; fewer examples than shots.
std::vector<std::vector<BenchmarkItem>> make_items(const BenchmarkTask& task, const ItemOptions& options);

/// Examples before each question.
std::int64_t shots_of(const BenchmarkTask& task, const ItemOptions& options);

}  // namespace moh
