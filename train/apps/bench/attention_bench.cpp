#include "train/apps/bench/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/random.h"
#include "models/layers/head_routing.h"
#include "ops/attention/aggregated_attention.h"
#include "ops/attention/attention.h"
#include "ops/moh/head_sequences.h"
#include "ops/moh/head_slots.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/require_option.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum AttentionStream : std::uint64_t { kInputs, kGates, kCotangent, kSelection, kParameters };

constexpr std::string_view kAttentionBench = "bench attention";

/// The side of a square image.
std::int64_t side_of(std::int64_t tokens) {
  return std::llround(std::sqrt(static_cast<double>(tokens)));
}

void check(AttentionBenchOptions& o) {
  check(static_cast<AttentionCases&>(o), kAttentionBench);
  require_option(o.window >= 0, kAttentionBench, "window", "0 or more", o.window);
  require_option(o.window == 0 || std::ranges::count(o.causal, false) == 0, kAttentionBench, "window",
                 "a causal mask (--causal, not --full)", o.window);
  require_option(o.pooled >= 0, kAttentionBench, "pooled", "0 or more", o.pooled);
  require_option(!o.routed_keys || (o.window == 0 && o.pooled == 0), kAttentionBench, "routed-keys",
                 "neither --window nor --pooled", 1);
  if (o.pooled == 0) return;
  require_option(o.kv_heads == o.heads, kAttentionBench, "kv-heads", "as many as heads with --pooled",
                 o.kv_heads);
  require_option(std::ranges::count(o.causal, true) == 0, kAttentionBench, "causal",
                 "full attention with --pooled", 1);
  require_option(!o.within_groups, kAttentionBench, "within-groups", "no KV groups with --pooled", 1);
  require_option(!o.listed, kAttentionBench, "listed", "no lists of all heads with --pooled", 1);
  for (const std::int64_t tokens : o.tokens) {
    const std::int64_t side = side_of(tokens);
    require_option(side * side == tokens && tokens >= o.pooled, kAttentionBench, "tokens",
                   "a square with --pooled, and no fewer", tokens);
  }
}

/// uint8 [B, T, H] with `kept` selected heads per token: the first `shared` ones and random others.
Tensor random_selection(const Shape& shape, std::int64_t shared, std::int64_t kept, std::uint64_t seed) {
  const std::int64_t heads = shape[2];
  Tensor selected = zeros(shape, DType::kUInt8);
  std::vector<std::int64_t> routed(static_cast<std::size_t>(heads - shared));
  std::uint64_t draws = 0;
  for (std::int64_t token = 0; token < shape[0] * shape[1]; ++token) {
    std::uint8_t* bits = selected.data<std::uint8_t>() + token * heads;
    std::fill_n(bits, shared, std::uint8_t{1});
    std::iota(routed.begin(), routed.end(), shared);
    for (std::int64_t i = 0; i < kept - shared; ++i) {  // partial Fisher-Yates shuffle
      const auto left = static_cast<std::uint64_t>(heads - shared - i);
      const std::uint64_t pick = random_below({seed, kSelection}, draws++, left);
      std::swap(routed[static_cast<std::size_t>(i)], routed[static_cast<std::size_t>(i) + pick]);
      bits[routed[static_cast<std::size_t>(i)]] = 1;
    }
  }
  return selected;
}

AttentionCandidate dense_candidate(const AttentionBenchOptions& o, bool causal, const Tensor& qkv,
                                   bool any_order = false) {
  const Variable leaf(qkv, true);
  const AttentionOptions mask{.causal = causal, .window = o.window};
  MathMode mode = math_mode();
  mode.deterministic_attention = !any_order;
  return {.dense = true,
          .any_order = any_order,
          .leaves = {leaf},
          .forward = [=, heads = o.heads, kv_heads = o.kv_heads] {
            const MathModeScope scope(mode);
            return attention_packed(leaf, heads, kv_heads, mask);
          }};
}

/// A selection with `active` heads.
SelectedPairs selected_pairs(const AttentionBenchOptions& o, std::int64_t tokens, double active) {
  const Shape shape{o.batch, tokens, o.heads};
  const std::int64_t kept = o.kept_heads(active), shared = std::min(o.heads / 8, kept);
  const Tensor selected = random_selection(shape, shared, kept, o.seed);
  const Variable gates(empty(shape, accumulate_dtype(o.dtype), o.device), true);
  fill_uniform(gates.value(), {o.seed, kGates}, 0.5, 1.5);
  return {gates, build_head_lists(selected.to(o.device), o.kv_heads, kept)};
}

/// Head-sparse attention with `active` heads, on the inputs of all candidates.
AttentionCandidate listed_candidate(const AttentionBenchOptions& o, bool causal, const Tensor& qkv,
                                    double active) {
  const SelectedPairs pairs = selected_pairs(o, qkv.dim(1), active);
  const AttentionOptions mask{.causal = causal, .window = o.window};
  const Variable leaf(qkv, true);
  return {.active = active, .leaves = {leaf, pairs.gates}, .forward = [=] {
            return head_sparse_attention_packed(leaf, pairs.gates, pairs.lists, mask);
          }};
}

/// Attention inside KV groups with `active` heads. The selection of a token is one of each of its groups.
AttentionCandidate candidate_within_groups(const AttentionBenchOptions& o, bool causal, std::int64_t tokens,
                                           double active) {
  const std::int64_t groups = o.kv_heads, kept = o.kept_heads(active) / groups;
  const std::int64_t shared = std::min(o.heads / 8 / groups, kept);
  const Shape per_head{o.batch, tokens, o.heads};
  const Tensor selected =
      random_selection({o.batch, tokens * groups, o.heads / groups}, shared, kept, o.seed).reshape(per_head);
  HeadChoice choice;
  choice.rule = routings::kWithinGroups;
  choice.slots = head_slots(selected.to(o.device), groups, kept);
  choice.gates = Variable(empty(per_head, accumulate_dtype(o.dtype), o.device), true);
  fill_uniform(choice.gates.value(), {o.seed, kGates}, 0.5, 1.5);
  const AttentionOptions mask{.causal = causal, .window = o.window};
  std::uint64_t stream = kInputs;
  const auto leaf = [&](std::int64_t heads) {
    const Tensor x = empty({o.batch, tokens, heads, o.head_dim}, o.dtype, o.device);
    fill_normal(x, {o.seed, stream}, 0.0, 1.0);
    stream += std::uint64_t{1} << 8;
    return Variable(x, true);
  };
  const Variable q = leaf(o.heads), k = leaf(groups), v = leaf(groups);
  return {.active = active, .within_groups = true, .leaves = {q, k, v, choice.gates}, .forward = [=] {
            return attend(q, k, v, &choice, mask);
          }};
}

/// Attention of each head over the tokens that selected it, with `active` heads of a token.
AttentionCandidate candidate_of_routed_keys(const AttentionBenchOptions& o, const Tensor& qkv,
                                            double active) {
  const SelectedPairs pairs = selected_pairs(o, qkv.dim(1), active);
  const Shape shape{o.batch, qkv.dim(1), o.heads, o.head_dim};
  std::vector<Variable> leaves;
  for (std::uint64_t i = 0; i < 3; ++i) {
    leaves.emplace_back(empty(shape, o.dtype, o.device), true);
    fill_normal(leaves.back().value(), {o.seed, kInputs + (i << 8)}, 0.0, 1.0);
  }
  leaves.push_back(pairs.gates);
  return {.active = active, .routed_keys = true, .leaves = leaves, .forward = [=] {
            const HeadSequences s = head_sequences(pairs.lists);
            const Variable out =
                attention(gather_pairs(leaves[0], s), gather_pairs(leaves[1], s), gather_pairs(leaves[2], s),
                          {.document_starts = s.starts, .sequences = {s.offsets, s.longest}});
            return scatter_pairs(out, leaves[3], s);
          }};
}

constexpr std::int64_t kWindow = 3;  ///< of aggregated attention, as in TransNeXt

/// Operands of aggregated attention, in the op's order.
std::vector<Tensor> aggregated_inputs(const AttentionBenchOptions& o, std::int64_t tokens) {
  constexpr std::int64_t kNeighbours = kWindow * kWindow;
  const std::int64_t heads = o.heads, d = o.head_dim;
  std::vector<Tensor> inputs;
  for (const Shape& shape : {Shape{o.batch, tokens, heads, d}, Shape{o.batch, tokens, 2 * heads, d},
                             Shape{o.batch, o.pooled, 2 * heads, d}}) {
    inputs.push_back(empty(shape, o.dtype, o.device));
    fill_normal(inputs.back(), {o.seed, kInputs + (inputs.size() << 8)}, 0.0, 1.0);
  }
  for (const Shape& shape :
       {Shape{heads, 1, d}, Shape{heads, 1, 1}, Shape{heads, tokens, o.pooled}, Shape{heads, kNeighbours},
        Shape{heads, d, kNeighbours}, Shape{heads, 1, kNeighbours}}) {
    inputs.push_back(empty(shape, o.dtype, o.device));
    fill_normal(inputs.back(), {o.seed, kParameters + (inputs.size() << 8)}, 0.0, 1.0);
  }
  return inputs;
}

/// Aggregated attention, dense or with `active` heads.
AttentionCandidate aggregated_candidate(const AttentionBenchOptions& o, const std::vector<Tensor>& inputs,
                                        std::optional<double> active) {
  AttentionCandidate candidate{.dense = !active.has_value(), .active = active.value_or(1.0)};
  for (const Tensor& input : inputs) candidate.leaves.emplace_back(input, true);
  SelectedPairs pairs;
  const std::int64_t tokens = inputs[0].dim(1), side = side_of(tokens);
  if (active) {
    pairs = selected_pairs(o, tokens, *active);
    candidate.leaves.push_back(pairs.gates);
  }
  candidate.forward = [=, x = candidate.leaves] {
    return aggregated_attention(x[0], x[1], x[2], {x[3], x[4], x[5]}, {x[6], x[7], x[8]},
                                {side, side, kWindow}, pairs);
  };
  return candidate;
}

AttentionComparison compare_aggregated(const AttentionBenchOptions& o, std::int64_t tokens) {
  const std::vector<Tensor> inputs = aggregated_inputs(o, tokens);
  const Tensor dout = empty(inputs[0].shape(), o.dtype, o.device);
  fill_normal(dout, {o.seed, kCotangent}, 0.0, 1.0);
  AttentionComparison c{tokens, false, std::ranges::count(o.active, 1.0) > 0, dout, {}};
  c.candidates.push_back(aggregated_candidate(o, inputs, std::nullopt));
  for (const double active : o.active) {
    if (active != 1.0) c.candidates.push_back(aggregated_candidate(o, inputs, active));
  }
  return c;
}

AttentionComparison compare(const AttentionBenchOptions& o, std::int64_t tokens, bool causal) {
  if (o.pooled > 0) return compare_aggregated(o, tokens);
  const Tensor qkv = empty({o.batch, tokens, o.heads + 2 * o.kv_heads, o.head_dim}, o.dtype, o.device);
  const Tensor dout = empty({o.batch, tokens, o.heads, o.head_dim}, o.dtype, o.device);
  fill_normal(qkv, {o.seed, kInputs}, 0.0, 1.0);
  fill_normal(dout, {o.seed, kCotangent}, 0.0, 1.0);
  AttentionComparison c{tokens, causal, std::ranges::count(o.active, 1.0) > 0, dout, {}, o.window};
  c.candidates.push_back(dense_candidate(o, causal, qkv));
  if (o.device != kCpu) c.candidates.push_back(dense_candidate(o, causal, qkv, true));
  if (o.listed) c.candidates.push_back(listed_candidate(o, causal, qkv, 1.0));
  for (double active : o.active) {
    if (active != 1.0) c.candidates.push_back(listed_candidate(o, causal, qkv, active));
    if (active != 1.0 && o.measures_within_groups(o.kept_heads(active)))
      c.candidates.push_back(candidate_within_groups(o, causal, tokens, active));
    if (active != 1.0 && o.routed_keys) c.candidates.push_back(candidate_of_routed_keys(o, qkv, active));
  }
  return c;
}

/// The share of the (query, key) pairs of dense attention that a candidate computes.
double share_of_pairs(const AttentionBenchOptions& o, const AttentionCandidate& candidate) {
  const auto heads = static_cast<double>(o.heads);
  const std::int64_t kept = o.kept_heads(candidate.active), shared = std::min(o.heads / 8, kept);
  if (!candidate.routed_keys) return static_cast<double>(kept) / heads;  // the same for every position
  return pairs_of_routed_keys(shared, kept - shared, o.heads - shared) / heads;
}

Row describe(const AttentionBenchOptions& o, const AttentionComparison& c,
             const AttentionCandidate& candidate) {
  const double pairs_share = share_of_pairs(o, candidate);
  const std::string_view of_heads = candidate.any_order       ? "attention_in_any_order"
                                    : candidate.dense         ? "attention"
                                    : candidate.within_groups ? "attention_within_groups"
                                    : candidate.routed_keys   ? "attention_of_routed_keys"
                                                              : "head_sparse_attention";
  Row row = first_members(o, o.pooled > 0 ? "aggregated_attention" : of_heads, c);
  row.add("heads", o.heads);
  row.add("kv_heads", o.kv_heads);
  row.add("head_dim", o.head_dim);
  if (o.pooled > 0) row.add("pooled", o.pooled, {"pooled"});
  add_mask(row, c);
  row.show({"form", {}, -6}, candidate.any_order       ? "any order"
                             : candidate.dense         ? "dense"
                             : candidate.within_groups ? "slots"
                             : candidate.routed_keys   ? "packed"
                                                       : "listed");
  row.add("active", candidate.active, {"active", Row::significant(3)});
  row.add("pairs_share", pairs_share, {"pairs", Row::fixed(3), -6});
  add_medians(row, candidate.times);
  add_ratios(row, candidate.times, c);
  const double keys = o.pooled > 0 ? static_cast<double>(o.pooled + kWindow * kWindow) : c.visible_keys();
  const double pairs = static_cast<double>(o.batch * o.heads * c.tokens) * keys * pairs_share;
  const double megaflops = pairs * static_cast<double>(o.head_dim) * 1e-6;
  row.add("forward_megaflops", 4 * megaflops);
  row.add("peak_bytes", candidate.peak_bytes);
  row.add("forward_gflops", 4 * megaflops / median(candidate.times.forward));
  row.add("forward_backward_gflops", 14 * megaflops / median(candidate.times.both),
          {"GFLOP/s", Row::fixed(0)});
  return row;
}

}  // namespace

void run_attention_bench(const AttentionBenchOptions& asked, const std::function<void(const Row&)>& on_row) {
  AttentionBenchOptions options = asked;
  check(options);
  run_attention_cases(
      options, [&](std::int64_t tokens, bool causal) { return compare(options, tokens, causal); },
      [&](const AttentionComparison& c, const AttentionCandidate& candidate) {
        return describe(options, c, candidate);
      },
      on_row);
}

}  // namespace moh
