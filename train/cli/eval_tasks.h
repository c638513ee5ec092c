#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/tasks/family.h"

namespace moh::cli {

/// The options of `moh eval tasks=[...]`.
struct EvalTasksArgs {
  std::optional<std::int64_t> limit, shots, new_tokens;
  std::int64_t batch_tokens = 4096;
  std::uint64_t seed = 1234;
  std::string samples;  ///< file; empty: none
  bool list = false;

  /// The first of the options that are for benchmarks alone and were given; "" if none was.
  std::string first_given() const;
};

/// Whether one of `overrides` is tasks=...
bool asks_for_tasks(const std::vector<std::string>& overrides);

/// Runs the benchmarks of tasks=[...] on the files of data=DIR, and prints their scores. Returns kInterrupted
/// after a signal, with the scores of those that were finished.
int eval_tasks(const std::string& checkpoint, const std::vector<std::string>& overrides,
               const EvalTasksArgs& args, bool json, const Families& families);

}  // namespace moh::cli
