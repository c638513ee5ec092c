#include "train/apps/bench/attention_cases.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/cpu_isa.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/require_option.h"

namespace moh {

namespace {

/// Memory that a pass takes besides what is there before it.
std::int64_t peak_of_pass(AttentionCandidate& candidate, Device device, const Tensor& dout) {
  for (Variable& leaf : candidate.leaves) leaf.zero_grad();
  reset_memory_peaks(device);
  const std::int64_t before = memory_stats(device).total.current_bytes;
  candidate.forward().backward(dout);
  return memory_stats(device).total.peak_bytes - before;
}

void measure(std::vector<AttentionCandidate>& candidates, const AttentionCases& o, const Tensor& dout) {
  std::vector<PassTimer> timers;
  for (std::size_t i = 0; i < candidates.size(); ++i) timers.emplace_back(o.device);
  for (int pass = 0; pass < o.warmups + o.repeats; ++pass) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (pass == o.warmups) timers[i].forget();
      for (Variable& leaf : candidates[i].leaves) leaf.zero_grad();
      timers[i].pass(candidates[i].forward, [&](const Variable& out) { out.backward(dout); });
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].times = timers[i].times();
    candidates[i].peak_bytes = peak_of_pass(candidates[i], o.device, dout);
  }
}

}  // namespace

std::int64_t AttentionCases::kept_heads(double share) const {
  return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(heads)), 1, heads);
}

void check(AttentionCases& c, std::string_view bench) {
  for (const auto& [name, value] : {std::pair<std::string_view, std::int64_t>{"batch", c.batch},
                                    {"heads", c.heads},
                                    {"repeats", c.repeats}}) {
    require_option(value >= 1, bench, name, "1 or more", value);
  }
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  require_option(c.kv_heads >= 1, bench, "kv-heads", "1 or more, or 0 for as many as heads", c.kv_heads);
  require_option(c.heads % c.kv_heads == 0, bench, "kv-heads",
                 "a divisor of the " + std::to_string(c.heads) + " heads", c.kv_heads);
  require_option(!c.within_groups || c.kv_heads < c.heads, bench, "kv-heads",
                 "fewer than the " + std::to_string(c.heads) + " heads with --within-groups", c.kv_heads);
  require_option(!c.routed_keys || c.kv_heads == c.heads, bench, "kv-heads",
                 "as many as heads with --routed-keys", c.kv_heads);
  require_option(!c.routed_keys || std::ranges::count(c.causal, false) == 0, bench, "routed-keys",
                 "a causal mask (--causal, not --full)", 1);
  require_option(is_floating(c.dtype), bench, "dtype", "a floating dtype", dtype_name(c.dtype));
  require_option(c.warmups >= 0, bench, "warmups", "0 or more", c.warmups);
  require_option(c.head_dim >= 1 && c.head_dim <= 256, bench, "head-dim", "1 to 256", c.head_dim);
  for (std::int64_t tokens : c.tokens) {
    require_option(tokens >= 1, bench, "tokens", "1 or more", tokens);
  }
  for (double active : c.active) {
    require_option(active > 0.0 && active <= 1.0, bench, "active", "a share above 0, at most 1", active);
  }
}

double pairs_of_routed_keys(std::int64_t shared, std::int64_t kept, std::int64_t routed) {
  const auto selected = static_cast<double>(kept);
  return static_cast<double>(shared) + (kept > 0 ? selected * selected / static_cast<double>(routed) : 0);
}

double AttentionComparison::visible_keys() const {
  if (!causal) return static_cast<double>(tokens);
  const auto widest = static_cast<double>(window > 0 ? std::min(window, tokens) : tokens);
  return widest - widest * (widest - 1) / 2 / static_cast<double>(tokens);
}

void run_attention_cases(
    const AttentionCases& cases,
    const std::function<AttentionComparison(std::int64_t tokens, bool causal)>& compare,
    const std::function<Row(const AttentionComparison&, const AttentionCandidate&)>& describe,
    const std::function<void(const Row&)>& on_row) {
  open_device(cases.device);
  for (const std::int64_t tokens : cases.tokens) {
    for (const bool causal : cases.causal) {
      AttentionComparison comparison = compare(tokens, causal);
      measure(comparison.candidates, cases, comparison.dout);
      for (const AttentionCandidate& candidate : comparison.candidates) {
        if (!candidate.dense || comparison.show_dense) on_row(describe(comparison, candidate));
      }
    }
  }
}

Row first_members(const AttentionCases& cases, std::string_view op, const AttentionComparison& comparison) {
  Row row;
  row.add("op", std::string(op));
  row.add("device", device_name(cases.device));
  row.add("dtype", std::string(dtype_name(cases.dtype)));
  row.add("isa", std::string(cpu_isa_name(cpu_isa())));
  row.add("batch", cases.batch);
  row.add("tokens", comparison.tokens, {"tokens"});
  return row;
}

void add_mask(Row& row, const AttentionComparison& comparison) {
  row.add("causal", comparison.causal);
  row.show({"mask", {}, -6}, comparison.causal ? "causal" : "full");
  if (comparison.window > 0) row.add("window", comparison.window, {"window"});
}

void add_medians(Row& row, const PassTimes& times) {
  row.add("forward_ms", median(times.forward), {"forward ms", Row::fixed(3)});
  row.add("forward_backward_ms", median(times.both), {"fwd+bwd ms", Row::fixed(3)});
}

void add_ratios(Row& row, const PassTimes& times, const AttentionComparison& comparison) {
  const PassTimes& dense = comparison.candidates.front().times;
  row.add("spread", relative_spread(times.both), {"spread", Row::percent(1)});
  row.add("forward_ratio", median_ratio(times.forward, dense.forward), {"fwd/dense", Row::fixed(3)});
  row.add("forward_backward_ratio", median_ratio(times.both, dense.both), {"fwd+bwd/dense", Row::fixed(3)});
}

}  // namespace moh
