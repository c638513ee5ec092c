#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "train/tasks/language/benchmark/run_benchmark.h"

namespace moh {

/// The results of a run of benchmarks.
struct BenchmarkReport {
  std::string checkpoint;
  std::string model;       ///< its routing, in words
  std::uint64_t seed = 0;  ///< of the draw of examples
  std::int64_t limit = 0;  ///< questions of each benchmark; 0: all
  bool complete = true;    ///< false: the run was stopped, and the last benchmarks are missing
  std::vector<BenchmarkResult> results;
};

/// A line for each score, with its standard error, and below it the scores beside those that the MoH paper
/// reports.
void write_table(std::ostream& out, const BenchmarkReport& report);
/// One JSON object: checkpoint, model, seed, limit, complete and benchmarks, by name: shots, questions, cut,
/// score, scores (value and stderr), subjects, paper.
void write_json_line(std::ostream& out, const BenchmarkReport& report);

/// Writes a JSON object for each question into a file, which is replaced: benchmark, subject, index, place,
/// contexts, continuations, log_likelihoods, is_greedy, text, correct, references and scores. Throws
/// StorageError.
void write_samples(const std::filesystem::path& file, const BenchmarkReport& report);

/// What benchmarks the program has, with the files that each needs: a line for each.
void list_benchmarks(std::ostream& out);

}  // namespace moh
