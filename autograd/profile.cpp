#include "autograd/profile.h"

#include <algorithm>

#include "autograd/recompute.h"
#include "core/error.h"

namespace moh {

Profiler::Profiler(DeviceClock& clock) : clock_(clock) {
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
  spans_.push_back({&entry, around, clock_.mark(), 0});
}

void Profiler::end() {
  spans_[open_.back()].end = clock_.mark();
  open_.pop_back();
}

std::string_view Profiler::innermost() const {
  return open_.empty() ? std::string_view() : spans_[open_.back()].entry->op;
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
