#include "train/trainer/run/step_times.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/tensor.h"
#include "train/base/log/logging.h"

namespace moh {

namespace {

std::string trace_file_of(int rank) {
  return rank == 0 ? "trace.json" : "trace.rank" + std::to_string(rank) + ".json";
}

}  // namespace

StepTimes::StepTimes(const RunParts& run)
    : profile_(run.config.profile), folder_(run.folder), processes_(run.processes) {
  if (!profile_.steps.empty()) {
    const bool on_gpus = run.config.device != kCpu && !processes_.alone();
    trace_.emplace(run.config.output.dir / trace_file_of(processes_.rank()), run.config.device,
                   processes_.rank(), on_gpus ? &processes_.on_device() : nullptr);
  }
  listen();
}

StepTimes::~StepTimes() {
  processes_.set_listener({});
  processes_.set_wait_listener({});
}

void StepTimes::listen() {
  processes_.set_listener([this](const Collective& collective) {
    if (!in_step_) return;
    collective_seconds_ += collective.end - collective.begin;
    if (trace_) trace_->add_collective(collective);
  });
  if (!trace_) return;
  processes_.set_wait_listener(
      [this](double begin, double end) { trace_->add_wait_for_processes(begin, end); });
}

bool StepTimes::is_traced(std::int64_t step) const {
  const std::vector<std::int64_t>& steps = profile_.steps;
  return !steps.empty() && step >= steps[0] && step <= steps[1];
}

bool StepTimes::measure(std::int64_t step, FunctionRef<bool()> begin) {
  if (is_traced(step)) trace_->begin_step(step);
  in_step_ = true;
  const bool has_begun = begin();
  in_step_ = false;
  if (!has_begun && trace_ && trace_->in_step()) trace_->end_step();
  return has_begun;
}

void StepTimes::finish(std::int64_t step, const StepReport& report, bool is_last) {
  if (trace_ && trace_->in_step()) {
    trace_->end_step();
    if (!is_traced(step + 1) || is_last) write_trace(step);
  }
  sums_.seconds += report.seconds;
  sums_.data_seconds += report.data_seconds;
  sums_.comm_seconds += report.comm_seconds;
  sums_.items += report.statistics.items;
  sums_.flops += report.flops;
  ++sums_.steps;
}

void StepTimes::write_trace(std::int64_t step) {
  if (!trace_ || !trace_->has_news()) return;
  if (processes_.is_rank0()) folder_.require_in_place();
  trace_->write();
  log_info("profile: the trace of steps " + std::to_string(profile_.steps[0]) + " to " +
           std::to_string(step) + " is written");
}

void StepTimes::take_into(MetricRecord& record, std::string_view items_name) {
  record.add(std::string(items_name) + "_per_s", items_per_second());
  const Sums sums = std::exchange(sums_, {});
  record.add("data_wait", sums.data_seconds / sums.seconds);
  if (processes_.alone()) return;
  record.add("processes", processes_.size()).add("comm_wait", sums.comm_seconds / sums.seconds);
  const double collectives = collective_seconds_.exchange(0);
  record.add("comm_exposed", collectives > 0 ? std::min(1.0, sums.comm_seconds / collectives) : 0.0);
  compare_ranks(record, sums);
}

/// The time of a step in each process, without waiting for the others.
void StepTimes::compare_ranks(MetricRecord& record, const Sums& sums) {
  const double own = (sums.seconds - sums.comm_seconds) / static_cast<double>(sums.steps);
  const Tensor seconds = empty({processes_.size()}, DType::kFloat64);
  processes_.all_gather(tensor_of<double>({}, {own}), seconds);
  const auto of_ranks = seconds.span<double>();
  const auto [least, most] = std::ranges::minmax_element(of_ranks);
  record.add("rank_step_s_min", *least).add("rank_step_s_max", *most);
  record.add("slowest_rank", most - of_ranks.begin());
}

}  // namespace moh
