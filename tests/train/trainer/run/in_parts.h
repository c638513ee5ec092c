#pragma once

#include <cstdint>

#include "train/trainer/config/run_config.h"

namespace moh::test {

/// Samples of a step of the runs below.
inline constexpr std::int64_t kSamples = 8;

/// The run with a step of kSamples in `accumulate` micro-batches.
inline RunConfig in_parts(RunConfig run, std::int64_t accumulate) {
  run.train.batch_size = kSamples / accumulate;
  run.train.accumulate = accumulate;
  return run;
}

}  // namespace moh::test
