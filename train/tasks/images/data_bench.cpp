#include "train/tasks/images/data_bench.h"

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "train/tasks/data/batch_workers.h"

namespace moh {

namespace {

void check(const DataBenchOptions& options) {
  const std::pair<std::string_view, std::int64_t> positive[] = {
      {"batch", options.batch}, {"batches", options.batches}, {"threads", options.threads}};
  for (const auto& [name, value] : positive) {
    if (value < 1) throw ValueError(error_message("bench data", name, "1 or more", std::to_string(value)));
  }
}

Row row_of(std::string stage, std::int64_t threads, double seconds, double images, double share) {
  Row row;
  row.add("stage", std::move(stage), {"stage", {}, -10});
  row.add("isa", std::string(cpu_isa_name(cpu_isa())));
  row.add("threads", threads, {"threads"});
  row.add("ms_per_image", 1e3 * seconds * static_cast<double>(threads) / images, {"ms/image", Row::fixed(3)});
  row.add("images_per_s", images / seconds, {"images/s", Row::fixed(1), 9});
  row.add("share", share, {"share", Row::percent(1)});
  return row;
}

/// Seconds of each stage, on this thread.
StageSeconds stages_of(const TrainingPictures& data, const DataBenchOptions& options) {
  StageSeconds seconds;
  PictureBatch batch = data.begin(options.batch);
  for (std::int64_t i = 0; i <= options.batches; ++i) {
    if (i == 1) seconds = {};  // the first batch fills caches
    const std::int64_t first = options.first + i * options.batch;
    for (std::int64_t row = 0; row < options.batch; ++row) data.make(batch, first, row, &seconds);
    data.finish(batch, first, &seconds);
  }
  return seconds;
}

/// Seconds of as many batches from threads that make them as in training.
double seconds_of_threads(const TrainingPictures& data, const DataBenchOptions& options) {
  const auto first_of = [&](std::int64_t index) { return options.first + index * options.batch; };
  BatchWorkers<PictureBatch> workers(
      {.begin = [&](std::int64_t) { return data.begin(options.batch); },
       .samples = options.batch,
       .make = [&](PictureBatch& batch, std::int64_t index,
                   std::int64_t row) { data.make(batch, first_of(index), row); },
       .finish = [&](PictureBatch& batch, std::int64_t index) { data.finish(batch, first_of(index)); }},
      0, 2, options.threads);
  workers.next();
  const auto begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.batches; ++i) workers.next();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

void run_data_bench(const TrainingPictures& data, const DataBenchOptions& options,
                    const std::function<void(const Row&)>& on_row) {
  check(options);
  const StageSeconds seconds = stages_of(data, options);
  const auto images = static_cast<double>(options.batch * options.batches);
  const std::pair<std::string_view, double> stages[] = {
      {"load", seconds.load},       {"decode", seconds.decode},       {"resize", seconds.resize},
      {"augment", seconds.augment}, {"normalize", seconds.normalize}, {"mix", seconds.mix}};
  for (const auto& [name, spent] : stages)
    on_row(row_of(std::string(name), 1, spent, images, spent / seconds.total()));
  on_row(row_of("all", 1, seconds.total(), images, 1));
  on_row(row_of("training", options.threads, seconds_of_threads(data, options), images, 1));
}

}  // namespace moh
