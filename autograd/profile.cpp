#include "autograd/profile.h"

#include <algorithm>

#include "core/error.h"

namespace moh {

Profiler::Profiler(Clock clock) : clock_(std::move(clock)) {
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
  const bool part_of_call = !open_.empty() && open_.back().entry == &entry;
  if (!part_of_call) ++entry.calls;
  entry.flops += flops;
  open_.push_back({&entry, clock_(), 0});
}

void Profiler::end() {
  const Frame frame = open_.back();
  open_.pop_back();
  const double seconds = clock_() - frame.began;
  frame.entry->seconds += seconds - frame.inner;
  if (!open_.empty()) open_.back().inner += seconds;
}

std::vector<ProfileEntry> Profiler::entries() const {
  MOH_CHECK(open_.empty(), "a profile is read between ops");
  std::vector<ProfileEntry> entries;
  for (const auto& [key, entry] : entries_) entries.push_back(entry);
  std::ranges::stable_sort(entries, std::ranges::greater(), &ProfileEntry::seconds);
  return entries;
}

}  // namespace moh
