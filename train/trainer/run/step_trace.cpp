#include "train/trainer/run/step_trace.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/base/log/progress.h"
#include "train/comm/device_collectives.h"

namespace moh {

namespace {

/// Tracks of a process in the trace.
enum Track : int { kTraining = 0, kDevice = 1, kCommunication = 2, kDeviceCommunication = 3 };

double exact_unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr double kMicroseconds = 1e6;  // per second: the unit of the format

nlohmann::json name_of_track(int rank, int track, const char* name) {
  return {{"name", "thread_name"}, {"ph", "M"}, {"pid", rank}, {"tid", track}, {"args", {{"name", name}}}};
}

}  // namespace

void StepTrace::begin_step(std::int64_t step) {
  MOH_CHECK(current_ == nullptr, "one traced step at a time");
  if (unix_first_ == 0) {
    first_ = monotonic_seconds();
    unix_first_ = exact_unix_seconds();
  }
  step_ = step;
  step_began_ = monotonic_seconds();
  recorder_.emplace(device_);
  profile_began_ = monotonic_seconds();
  if (collectives_ != nullptr) collectives_->set_timer(&recorder_->collectives.emplace());
  current_ = this;
  recording_ = true;
}

void StepTrace::end_step() {
  MOH_CHECK(current_ == this, "begin_step() comes first");
  current_ = nullptr;
  recording_ = false;
  const std::vector<ProfileInterval> intervals = recorder_->profiler.intervals();
  for (const ProfileInterval& span : intervals) {
    const std::string_view name = span.op.empty() ? phase_name(span.phase) : span.op;
    const std::string_view category = span.op.empty() ? "phase" : "op";
    add(name, category, kTraining, profile_began_ + span.begin, profile_began_ + span.end);
    if (device_ != kCpu)
      add(name, category, kDevice, profile_began_ + span.device_begin, profile_began_ + span.device_end);
  }
  if (collectives_ != nullptr) add_device_collectives();
  recorder_.reset();
  add("step " + std::to_string(step_), "step", kTraining, step_began_, monotonic_seconds(), step_);
}

void StepTrace::add_device_collectives() {
  collectives_->set_timer(nullptr);
  for (const CollectiveTimer::Span& span : recorder_->collectives->spans()) {
    add(span.name, "collective", kDeviceCommunication, profile_began_ + span.begin, profile_began_ + span.end,
        static_cast<std::int64_t>(span.bytes));
  }
}

void StepTrace::add_collective(const Collective& collective) {
  if (!recording_) return;
  add(collective.name, "collective", kCommunication, collective.begin, collective.end,
      static_cast<std::int64_t>(collective.bytes));
}

void StepTrace::add_wait_for_processes(double begin, double end) {
  if (current_ == this) add(kWaitForProcesses, "wait", kTraining, begin, end);
}

void StepTrace::add(std::string_view name, std::string_view category, int track, double begin, double end,
                    std::int64_t number) {
  const std::lock_guard lock(mutex_);
  events_.push_back({std::string(name), category, track, begin - first_, end - begin, number});
}

void StepTrace::write() {
  using nlohmann::json;
  json events = json::array();
  events.push_back({{"name", "process_name"},
                    {"ph", "M"},
                    {"pid", rank_},
                    {"args", {{"name", "rank " + std::to_string(rank_)}}}});
  events.push_back(name_of_track(rank_, kTraining, "training"));
  if (device_ != kCpu) events.push_back(name_of_track(rank_, kDevice, "device"));
  events.push_back(name_of_track(rank_, kCommunication, "communication"));
  if (collectives_ != nullptr)
    events.push_back(name_of_track(rank_, kDeviceCommunication, "device communication"));
  for (const Event& event : events_) {
    json entry = {{"name", event.name},
                  {"cat", event.category},
                  {"ph", "X"},
                  {"pid", rank_},
                  {"tid", event.track},
                  {"ts", (unix_first_ + event.begin) * kMicroseconds},
                  {"dur", event.seconds * kMicroseconds}};
    if (event.category == "step") entry["args"] = {{"step", event.number}};
    if (event.category == "collective") entry["args"] = {{"bytes", event.number}};
    events.push_back(std::move(entry));
  }
  written_ = events_.size();
  const json trace = {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}};
  write_file_durably(file_, trace.dump() + "\n");
}

WaitScope::WaitScope(std::string_view what, double* seconds)
    : what_(what), seconds_(seconds), began_(monotonic_seconds()) {}

WaitScope::~WaitScope() {
  const double now = monotonic_seconds();
  if (seconds_ != nullptr) *seconds_ += now - began_;
  if (StepTrace* const trace = StepTrace::current_) trace->add(what_, "wait", kTraining, began_, now);
}

}  // namespace moh
