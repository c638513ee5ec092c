#pragma once

#include <cstdint>
#include <functional>

#include "train/bench/row.h"
#include "train/tasks/data/data_bench_options.h"
#include "train/tasks/images/data/picture_batch.h"

namespace moh {

/// Measures how fast training pictures are made: a row for each stage on one thread, one for all of them, and
/// one for `threads` threads as in training. Fields of a row: stage, threads, ms_per_image (of one thread),
/// images_per_s, share of the time of one thread. Throws ValueError naming an option that is out of range,
/// DataError for broken pictures.
void run_data_bench(const TrainingPictures& data, const DataBenchOptions& options,
                    const std::function<void(const Row&)>& on_row);

}  // namespace moh
