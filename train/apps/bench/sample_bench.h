#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/diffusion/dit.h"
#include "train/base/measure/row.h"
#include "train/families/diffusion/sampling/sample_options.h"

namespace moh {

/// Options of `moh bench sample`, which measures how long models take to draw pictures.
struct SampleBenchOptions {
  SampleOptions sample{.steps = "4"};  ///< steps of a measured pass
  std::int64_t batch = 4;              ///< pictures drawn together
  int warmups = 1;                     ///< passes of each model before the measured ones
  int repeats = 5;                     ///< measured passes of each model, in turns with those of the others
};

/// A model to measure, under the name that its row has.
struct SampledModel {
  std::string name;
  const Dit* model = nullptr;
};

/// Draws pictures with each of the models, in turns, and passes a row for each to `on_row`. A step takes as
/// long whatever its number, so that `picture_s`, the time of a picture in 250 steps, is that of as many of
/// the pass's steps. `step_ms` is the median over the repeats, of a step of the batch; `ratio` that to the
/// first model: the median over the repeats, in each of which both are timed shortly after each other. Throws
/// ValueError naming the option that is out of range.
void run_sample_bench(const SampleBenchOptions& options, const std::vector<SampledModel>& models,
                      const std::function<void(const Row&)>& on_row);

}  // namespace moh
