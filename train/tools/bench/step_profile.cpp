#include "train/tools/bench/step_profile.h"

#include <algorithm>
#include <map>

namespace moh {

namespace {

void add_entry(OpTime& op, const ProfileEntry& entry, double steps) {
  const double ms = entry.seconds * 1e3 / steps;
  switch (entry.phase) {
    case ProfilePhase::kForward:
      op.forward_ms += ms;
      break;
    case ProfilePhase::kBackward:
      op.backward_ms += ms;
      break;
    case ProfilePhase::kOptimizer:
      op.optimizer_ms += ms;
      break;
  }
  op.calls += static_cast<double>(entry.calls) / steps;
  op.gflops += entry.flops / steps;  // made a rate once the time is complete
}

}  // namespace

double StepProfile::other_ms() const {
  double rest = step_ms;
  for (const OpTime& op : ops) rest -= op.total_ms();
  return rest;
}

StepProfile summarize_profile(std::span<const ProfileEntry> entries, std::int64_t steps, double seconds) {
  const auto count = static_cast<double>(steps);
  std::map<std::string, OpTime> by_op;
  for (const ProfileEntry& entry : entries) add_entry(by_op[entry.op], entry, count);
  StepProfile profile{seconds * 1e3 / count, {}};
  for (auto& [name, op] : by_op) {
    op.op = name;
    op.gflops = op.total_ms() > 0 ? op.gflops / op.total_ms() * 1e-6 : 0;
    profile.ops.push_back(op);
  }
  std::ranges::stable_sort(profile.ops, std::ranges::greater(), &OpTime::total_ms);
  return profile;
}

}  // namespace moh
