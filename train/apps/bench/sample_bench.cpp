#include "train/apps/bench/sample_bench.h"

#include <numeric>
#include <string_view>

#include "core/cpu_isa.h"
#include "core/device_clock.h"
#include "core/parallel.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/require_option.h"
#include "train/families/diffusion/sampling/picture_sampler.h"

namespace moh {

namespace {

constexpr std::string_view kSampleBench = "bench sample";
constexpr int kPaperSteps = 250;

void check(const SampleBenchOptions& o) {
  require_option(o.batch >= 1, kSampleBench, "batch-size", "1 or more", o.batch);
  require_option(o.warmups >= 0, kSampleBench, "warmups", "0 or more", o.warmups);
  require_option(o.repeats >= 1, kSampleBench, "repeats", "1 or more", o.repeats);
}

/// A model and the times of a step in its passes.
struct SampleCandidate {
  SampleCandidate(const SampledModel& sampled, const SampleBenchOptions& o)
      : name(sampled.name), model(*sampled.model), sampler(model, o.sample) {}

  std::string name;
  const Dit& model;
  PictureSampler sampler;
  std::vector<double> step_ms;
};

void run_pass(SampleCandidate& candidate, const SampleBenchOptions& o) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(o.batch));
  std::iota(numbers.begin(), numbers.end(), 0);
  std::vector<std::int64_t> labels = numbers;
  for (std::int64_t& label : labels) label %= candidate.model.config().classes;
  DeviceClock clock(candidate.model.device());
  const DeviceClock::Mark begin = clock.mark();
  candidate.sampler.sample(numbers, labels, [] { return false; });
  const double seconds = clock.seconds(begin, clock.mark());
  candidate.step_ms.push_back(1e3 * seconds / static_cast<double>(candidate.sampler.steps()));
}

Row row_of(const SampleBenchOptions& o, const SampleCandidate& candidate, const SampleCandidate& first) {
  const double step_ms = median(candidate.step_ms);
  Row row;
  row.add("device", device_name(candidate.model.device()));
  row.add("dtype", std::string(dtype_name(candidate.model.dtype())));
  row.add("isa", std::string(cpu_isa_name(cpu_isa())));
  row.add("threads", num_threads());
  row.add("model", candidate.name, {"model", {}, -36});
  row.add("active", activated_heads(candidate.model), {"active", Row::significant(3)});
  row.add("batch", o.batch);
  row.add("guidance", o.sample.guidance, {"guidance", Row::significant(3)});
  row.add("step_ms", step_ms, {"ms/step", Row::fixed(2)});
  row.add("spread", relative_spread(candidate.step_ms), {"spread", Row::percent(1)});
  row.add("picture_s", kPaperSteps * step_ms * 1e-3 / static_cast<double>(o.batch),
          {"s/picture, 250 steps", Row::fixed(2)});
  row.add("ratio", median_ratio(candidate.step_ms, first.step_ms), {"/first", Row::fixed(3)});
  return row;
}

}  // namespace

void run_sample_bench(const SampleBenchOptions& options, const std::vector<SampledModel>& models,
                      const std::function<void(const Row&)>& on_row) {
  check(options);
  std::vector<SampleCandidate> candidates;
  for (const SampledModel& each : models) candidates.emplace_back(each, options);
  for (int i = 0; i < options.warmups; ++i) {
    for (SampleCandidate& candidate : candidates) run_pass(candidate, options);
  }
  for (SampleCandidate& candidate : candidates) candidate.step_ms.clear();
  for (int i = 0; i < options.repeats; ++i) {
    for (SampleCandidate& candidate : candidates) run_pass(candidate, options);
  }
  for (const SampleCandidate& candidate : candidates) on_row(row_of(options, candidate, candidates.front()));
}

}  // namespace moh
