#include "train/tools/bench/step_schedule.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace moh {

void ScheduleRecorder::add(std::span<const double> chunk_seconds) {
  const Profiler* const profiler = Profiler::current();
  const std::string op(profiler != nullptr ? profiler->innermost() : "");
  if (next_ == loops_.size()) loops_.emplace_back();
  Loop& loop = loops_[next_++];
  loop.measured += std::accumulate(chunk_seconds.begin(), chunk_seconds.end(), 0.0);
  // Lists of heads change from step to step, and with them the division of a loop: then the last one counts.
  if (loop.op != op || loop.chunk_seconds.size() != chunk_seconds.size()) {
    loop.op = op;
    loop.chunk_seconds.assign(chunk_seconds.begin(), chunk_seconds.end());
  }
  for (std::size_t i = 0; i < chunk_seconds.size(); ++i)
    loop.chunk_seconds[i] = std::min(loop.chunk_seconds[i], chunk_seconds[i]);
}

namespace {

void add_loop(OpSchedule& op, std::span<const double> chunk_seconds, int threads) {
  const auto chunks = static_cast<std::int64_t>(chunk_seconds.size());
  op.fewest_chunks = op.loops == 0 ? chunks : std::min(op.fewest_chunks, chunks);
  ++op.loops;
  op.chunks += chunks;
  op.in_loops_ms += 1e3 * std::accumulate(chunk_seconds.begin(), chunk_seconds.end(), 0.0);
  op.busiest_ms += 1e3 * busiest_thread(chunk_seconds, threads);
}

}  // namespace

StepSchedule ScheduleRecorder::summarize(std::span<const ProfileEntry> entries, std::int64_t steps,
                                         double seconds, int threads) const {
  const double per_step_ms = 1e3 / static_cast<double>(steps);
  StepSchedule schedule{.threads = threads};
  std::map<std::string, OpSchedule, std::less<>> by_op;
  for (const ProfileEntry& entry : entries) by_op[entry.op].serial_ms += entry.seconds * per_step_ms;
  schedule.all.serial_ms = seconds * per_step_ms;
  for (const Loop& loop : loops_) {
    OpSchedule& op = by_op[loop.op];
    for (OpSchedule* both : {&op, &schedule.all}) {
      add_loop(*both, loop.chunk_seconds, threads);
      both->serial_ms -= loop.measured * per_step_ms;
    }
  }
  by_op.erase("");  // outside ops: part of the whole step only
  for (auto& [name, op] : by_op) {
    op.op = name;
    op.serial_ms = std::max(op.serial_ms, 0.0);  // loops of nothing, measured by two clocks
    schedule.ops.push_back(op);
  }
  std::ranges::stable_sort(schedule.ops, std::ranges::greater(),
                           [](const OpSchedule& op) { return op.serial_ms + op.in_loops_ms; });
  return schedule;
}

}  // namespace moh
