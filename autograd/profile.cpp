#include "autograd/profile.h"

#include <algorithm>
#include <array>

#include "autograd/recompute.h"
#include "core/cuda/ranges.h"
#include "core/error.h"

namespace moh {

std::string_view phase_name(ProfilePhase phase) {
  constexpr std::array<std::string_view, kNumProfilePhases> kNames = {"forward", "backward", "optimizer"};
  return kNames[static_cast<std::size_t>(phase)];
}

Profiler::Profiler(DeviceClock& clock) : clock_(clock), first_(clock.mark()), host_first_(steady_seconds()) {
  MOH_CHECK(current_ == nullptr, "one profiler at a time");
  current_ = this;
}

Profiler::~Profiler() {
  current_ = nullptr;
}

void Profiler::begin(std::string_view op, double flops) {
  const auto [at, is_new] = entries_.try_emplace(std::pair(phase_, std::string(op)));
  ProfileEntry& entry = at->second;
  if (is_new) {
    entry.op = op;
    entry.phase = phase_;
  }
  ProfileEntry* const around = open_.empty() ? nullptr : spans_[open_.back()].entry;
  if (around != &entry) ++entry.calls;
  entry.flops += flops;
  if (!recomputing()) model_flops_ += flops;
  open_.push_back(spans_.size());
  cuda::push_range(op);
  spans_.push_back({&entry, around, clock_.mark(), 0, steady_seconds(), 0});
}

void Profiler::end() {
  Span& span = spans_[open_.back()];
  span.end = clock_.mark();
  span.host_end = steady_seconds();
  open_.pop_back();
  cuda::pop_range();
}

ProfilePhase Profiler::begin_phase(ProfilePhase phase) {
  cuda::push_range(phase_name(phase));
  const bool outermost = open_phases_.empty();
  open_phases_.push_back(phases_.size());
  phases_.push_back({phase, outermost, clock_.mark(), 0, steady_seconds(), 0});
  return std::exchange(phase_, phase);
}

void Profiler::end_phase(ProfilePhase previous) {
  PhaseSpan& span = phases_[open_phases_.back()];
  span.end = clock_.mark();
  span.host_end = steady_seconds();
  open_phases_.pop_back();
  phase_ = previous;
  cuda::pop_range();
}

Profiler::OpenOp Profiler::open_op() const {
  const auto reports = std::ranges::find_if(open_.rbegin(), open_.rend(),
                                            [&](std::size_t i) { return spans_[i].entry->flops > 0; });
  if (open_.empty()) return {phase_, {}};
  const ProfileEntry& entry = *spans_[reports != open_.rend() ? *reports : open_.back()].entry;
  return {entry.phase, entry.op};
}

std::vector<ProfileInterval> Profiler::intervals() const {
  MOH_CHECK(open_.empty() && open_phases_.empty(), "a profile is read between ops");
  std::vector<ProfileInterval> intervals;
  const auto add = [&](std::string_view op, ProfilePhase phase, const auto& span) {
    intervals.push_back({op, phase, span.host_begin - host_first_, span.host_end - host_first_,
                         clock_.seconds(first_, span.begin), clock_.seconds(first_, span.end)});
  };
  for (const PhaseSpan& span : phases_) {
    if (span.outermost) add({}, span.phase, span);
  }
  for (const Span& span : spans_) add(span.entry->op, span.entry->phase, span);
  std::ranges::stable_sort(intervals, std::ranges::less(), &ProfileInterval::begin);
  return intervals;
}

std::vector<ProfileEntry> Profiler::entries() const {
  MOH_CHECK(open_.empty(), "a profile is read between ops");
  std::map<const ProfileEntry*, double> own_seconds;
  for (const Span& span : spans_) {
    const double seconds = clock_.seconds(span.begin, span.end);
    own_seconds[span.entry] += seconds;
    if (span.around != nullptr) own_seconds[span.around] -= seconds;
  }
  std::vector<ProfileEntry> entries;
  for (const auto& [key, entry] : entries_) {
    entries.push_back(entry);
    entries.back().seconds = own_seconds[&entry];
  }
  std::ranges::stable_sort(entries, std::ranges::greater(), &ProfileEntry::seconds);
  return entries;
}

PhaseTimer::PhaseTimer(DeviceClock& clock) : clock_(clock) {
  MOH_CHECK(current_ == nullptr, "one timer of phases at a time");
  current_ = this;
  changes_.push_back({clock_.mark(), std::nullopt});
}

PhaseTimer::~PhaseTimer() {
  current_ = nullptr;
}

std::optional<ProfilePhase> PhaseTimer::change(std::optional<ProfilePhase> phase) {
  const std::optional<ProfilePhase> before = changes_.back().phase;
  changes_.push_back({clock_.mark(), phase});
  return before;
}

double PhaseTimer::seconds(std::optional<ProfilePhase> phase, DeviceClock::Mark from,
                           DeviceClock::Mark to) const {
  double seconds = 0;
  for (std::size_t i = 0; i < changes_.size(); ++i) {
    const DeviceClock::Mark begin = std::max(from, changes_[i].at);
    const DeviceClock::Mark end = i + 1 < changes_.size() ? std::min(to, changes_[i + 1].at) : to;
    if (changes_[i].phase == phase && begin < end) seconds += clock_.seconds(begin, end);
  }
  return seconds;
}

}  // namespace moh
