#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

#include "train/trainer/run/train_step.h"
#include "train/trainer/task/task.h"

using namespace moh;

namespace {

RunConfig run_of(std::int64_t batch_size, std::int64_t accumulate) {
  RunConfig run;
  run.train.batch_size = batch_size;
  run.train.accumulate = accumulate;
  return run;
}

/// Samples of a step in the order of the processes, and of their micro-batches.
std::vector<std::int64_t> samples_of_step(std::int64_t step, std::int64_t begin, const RunConfig& run,
                                          int processes) {
  const TrainConfig train = per_rank_config(run, processes);
  const std::int64_t own = train.accumulate / processes;
  std::vector<std::int64_t> samples;
  for (int rank = 0; rank < processes; ++rank) {
    const StepPart part{rank, processes};
    for (std::int64_t i = step * own; i < (step + 1) * own; ++i) {
      for (std::int64_t row = 0; row < train.batch_size; ++row)
        samples.push_back(part.first_of(i, begin, train) + row);
    }
  }
  return samples;
}

}  // namespace

TEST_CASE("processes: a step has the samples that it has in one process, in the order of the ranks") {
  for (const auto& [batch_size, accumulate] : {std::pair(8, 1), {2, 8}, {6, 4}, {12, 2}, {1, 24}}) {
    const RunConfig run = run_of(batch_size, accumulate);
    for (const int processes : {1, 2, 4}) {
      // 2, then 1, then 4 processes: a run that goes on begins with the sample after the last one.
      for (const std::int64_t step : {0, 1, 5}) {
        const std::int64_t begin = 1000, count = batch_size * accumulate;
        std::vector<std::int64_t> expected(static_cast<std::size_t>(count));
        std::iota(expected.begin(), expected.end(), begin + step * count);
        CHECK(samples_of_step(step, begin, run, processes) == expected);
      }
    }
  }
}

TEST_CASE("processes: micro-batches are divided among them where that goes, else cut") {
  const auto divided = [](const RunConfig& run, int processes) {
    const TrainConfig train = per_rank_config(run, processes);
    return std::pair(train.batch_size, train.accumulate);
  };
  CHECK(divided(run_of(8, 4), 1) == std::pair<std::int64_t, std::int64_t>(8, 4));
  CHECK(divided(run_of(8, 4), 2) == std::pair<std::int64_t, std::int64_t>(8, 4));
  CHECK(divided(run_of(8, 4), 4) == std::pair<std::int64_t, std::int64_t>(8, 4));
  CHECK(divided(run_of(8, 1), 4) == std::pair<std::int64_t, std::int64_t>(2, 4));
  CHECK(divided(run_of(8, 6), 4) == std::pair<std::int64_t, std::int64_t>(6, 8));
  CHECK_THROWS_WITH(per_rank_config(run_of(8, 1), 3),
                    Catch::Contains("train.batch_size: 8 x train.accumulate 1: expected samples of a step "
                                    "that 3 processes can share evenly, found 8"));
}
