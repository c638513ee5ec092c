#include "train/apps/bench/module_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "core/random.h"
#include "models/layers/moh_attention.h"
#include "models/llm/llama_layers.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/require_option.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum ModuleStream : std::uint64_t { kModuleInputs, kModuleCotangent };

constexpr std::string_view kModuleBench = "bench module";

void check(ModuleBenchOptions& o) {
  check(static_cast<AttentionCases&>(o), kModuleBench);
  require_option(!o.within_groups || std::ranges::count(o.causal, false) == 0, kModuleBench, "within-groups",
                 "a causal mask (--causal, not --full)", 1);
  require_option(o.width >= 1, kModuleBench, "width", "1 or more", o.width);
  require_option(o.head_dim % 2 == 0, kModuleBench, "head-dim", "an even number", o.head_dim);
}

/// Shared heads of a MoH layer that keeps `kept` heads.
std::int64_t shared_of(const ModuleBenchOptions& o, std::int64_t kept) {
  return std::min(o.heads / 8, kept - 1);
}

/// The routing of a MoH layer that keeps `kept` heads; none (a dense layer) if it keeps all.
HeadRoutingOptions routing_for(const ModuleBenchOptions& o, std::int64_t kept) {
  if (kept == o.heads) return {};
  const std::int64_t shared = shared_of(o, kept);
  return {routers::kLearned, {o.heads, shared, kept - shared}};
}

/// How many heads a layer keeps, and from what.
struct Kept {
  std::int64_t heads;
  bool within_groups = false;
  bool routed_keys = false;
};

LlamaConfig llama_of(const ModuleBenchOptions& o, std::int64_t tokens, Kept kept) {
  const HeadRoutingOptions routing = routing_for(o, kept.heads);
  LlamaConfig c;
  c.hidden = o.width;
  c.heads = o.heads;
  c.kv_heads = o.kv_heads;
  c.head_dim = o.head_dim;
  c.max_positions = tokens;
  c.moh.router = routing.kind;
  c.moh.num_shared = routing.router.num_shared;
  c.moh.top_k = routing.router.top_k;
  if (kept.routed_keys) {
    c.moh.routed = RoutedRows::kQueriesKeysValues;
    c.moh.positions = HeadPositions::kHead;
  }
  if (!kept.within_groups) return c;
  const std::int64_t shared = c.moh.num_shared.every / o.kv_heads * o.kv_heads;
  c.moh.routing = routings::kWithinGroups;
  c.moh.num_shared = shared;
  c.moh.top_k = kept.heads - shared;
  return c;
}

/// A layer in which each token selects `kept` heads.
AttentionCandidate candidate_with(const ModuleBenchOptions& o, bool causal, Kept kept, const Tensor& input) {
  const Placement placement(o.dtype, o.device);
  const Variable x(input, true);
  AttentionCandidate candidate{.dense = kept.heads == o.heads,
                               .active = static_cast<double>(kept.heads) / static_cast<double>(o.heads),
                               .within_groups = kept.within_groups,
                               .routed_keys = kept.routed_keys,
                               .leaves = {x}};
  std::shared_ptr<const Module> module;  // kept alive by `forward`
  if (causal) {
    const std::int64_t tokens = x.dim(1);
    const auto layer = std::make_shared<LlamaAttention>(llama_of(o, tokens, kept), 0, placement);
    const RopeTable table = rope_table(tokens, o.head_dim, 10000.0, DType::kFloat32, o.device);
    candidate.forward = [=] { return layer->forward(x, table).y; };
    module = layer;
  } else {
    const MohAttentionOptions options{o.width,     o.heads,   o.head_dim, routing_for(o, kept.heads),
                                      /*layer=*/0, o.kv_heads};
    const auto layer = std::make_shared<MohAttention>(options, placement);
    candidate.forward = [=] { return layer->forward(x).y; };
    module = layer;
  }
  const double std = 1.0 / std::sqrt(static_cast<double>(o.width));
  for (const NamedParameter& p : module->parameters()) {
    fill_normal(p.variable.value(), initialisation_key(o.seed, p.name), 0.0, std);
    candidate.leaves.push_back(p.variable);
  }
  return candidate;
}

AttentionComparison compare(const ModuleBenchOptions& o, std::int64_t tokens, bool causal) {
  const Tensor x = empty({o.batch, tokens, o.width}, o.dtype, o.device), dout = empty_like(x);
  fill_normal(x, {o.seed, kModuleInputs}, 0.0, 1.0);
  fill_normal(dout, {o.seed, kModuleCotangent}, 0.0, 1.0);
  AttentionComparison c{tokens, causal, false, dout, {}};
  c.candidates.push_back(candidate_with(o, causal, {o.heads}, x));
  for (const double active : o.active) {
    const std::int64_t kept = o.kept_heads(active);
    if (kept == o.heads) {
      c.show_dense = true;
      continue;
    }
    c.candidates.push_back(candidate_with(o, causal, {kept}, x));
    if (o.measures_within_groups(kept))
      c.candidates.push_back(candidate_with(o, causal, {kept, /*within_groups=*/true}, x));
    if (o.routed_keys)
      c.candidates.push_back(candidate_with(o, causal, {kept, false, /*routed_keys=*/true}, x));
  }
  return c;
}

std::optional<RoutedRows> routed_rows(const AttentionCandidate& candidate) {
  if (candidate.dense) return std::nullopt;
  return candidate.routed_keys ? RoutedRows::kQueriesKeysValues : RoutedRows::kQueries;
}

Row describe(const ModuleBenchOptions& o, const AttentionComparison& c, const AttentionCandidate& candidate) {
  const PassTimes &times = candidate.times, &dense = c.candidates.front().times;
  const double saving = attention_module_multiplications(o, c.visible_keys(), o.heads, std::nullopt) /
                        attention_module_multiplications(o, c.visible_keys(), o.kept_heads(candidate.active),
                                                         routed_rows(candidate));
  const std::string_view op = candidate.dense           ? "attention_module"
                              : candidate.within_groups ? "moh_within_groups_module"
                              : candidate.routed_keys   ? "moh_routed_keys_module"
                                                        : "moh_attention_module";
  Row row = first_members(o, op, c);
  row.add("width", o.width);
  row.add("heads", o.heads);
  row.add("kv_heads", o.kv_heads);
  row.add("head_dim", o.head_dim);
  add_mask(row, c);
  if (o.within_groups || o.routed_keys)
    row.show({"form", {}, -6}, candidate.dense           ? "dense"
                               : candidate.within_groups ? "slots"
                               : candidate.routed_keys   ? "packed"
                                                         : "listed");
  row.add("active", candidate.active, {"active", Row::significant(3)});
  add_medians(row, times);
  row.add("forward_spread", relative_spread(times.forward));
  add_ratios(row, times, c);
  row.add("ideal_forward_saving", saving);
  row.show({"ideal fwd", Row::fixed(3)}, 1.0 / saving);
  row.add("achieved_of_ideal", 1.0 / median_ratio(times.forward, dense.forward) / saving,
          {"of ideal", Row::percent(1)});
  return row;
}

}  // namespace

double attention_module_multiplications(const ModuleBenchOptions& o, double visible,
                                        std::int64_t active_heads, std::optional<RoutedRows> routed) {
  const auto width = static_cast<double>(o.width), d = static_cast<double>(o.head_dim);
  const auto heads = static_cast<double>(o.heads), active = static_cast<double>(active_heads);
  const bool routes_keys = routed == RoutedRows::kQueriesKeysValues;
  const double kv_heads = routes_keys ? active : static_cast<double>(o.kv_heads > 0 ? o.kv_heads : o.heads);
  const std::int64_t shared = shared_of(o, active_heads);
  const double pairs =
      routes_keys ? pairs_of_routed_keys(shared, active_heads - shared, o.heads - shared) : active;
  return 2 * (active + kv_heads) * d * width + 2 * pairs * d * visible + (routed ? (heads + 2) * width : 0.0);
}

void run_module_bench(const ModuleBenchOptions& asked, const std::function<void(const Row&)>& on_row) {
  ModuleBenchOptions options = asked;
  check(options);
  run_attention_cases(
      options, [&](std::int64_t tokens, bool causal) { return compare(options, tokens, causal); },
      [&](const AttentionComparison& c, const AttentionCandidate& candidate) {
        return describe(options, c, candidate);
      },
      on_row);
}

}  // namespace moh
