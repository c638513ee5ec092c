#include "train/bench/attention_bench.h"

#include <algorithm>
#include <numeric>

#include "core/random.h"
#include "ops/attention/attention.h"
#include "train/bench/require_option.h"
#include "train/math/statistics.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum Stream : std::uint64_t { kInputs, kGates, kCotangent, kSelection };

constexpr std::string_view kBench = "bench attention";

void check(const AttentionBenchOptions& o) {
  check(o, kBench);
  require_option(o.kv_heads >= 1, kBench, "kv-heads", "1 or more, or 0 for as many as heads", o.kv_heads);
  require_option(o.heads % o.kv_heads == 0, kBench, "kv-heads",
                 "a divisor of the " + std::to_string(o.heads) + " heads", o.kv_heads);
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

AttentionCandidate dense_candidate(const AttentionBenchOptions& o, bool causal, const Tensor& qkv) {
  const Variable leaf(qkv, true);
  return {.dense = true, .leaves = {leaf}, .forward = [=, heads = o.heads, kv_heads = o.kv_heads] {
            return attention_packed(leaf, heads, kv_heads, {.causal = causal});
          }};
}

/// Head-sparse attention with `active` heads, on the inputs of all candidates.
AttentionCandidate listed_candidate(const AttentionBenchOptions& o, bool causal, const Tensor& qkv,
                                    double active) {
  const Shape shape{qkv.dim(0), qkv.dim(1), o.heads};
  const std::int64_t kept = o.kept_heads(active), shared = std::min(o.heads / 8, kept);
  const Tensor selected = random_selection(shape, shared, kept, o.seed);
  const HeadLists lists = build_head_lists(selected.to(o.device), o.kv_heads, kept);
  const Variable leaf(qkv, true), gates(empty(shape, accumulate_dtype(o.dtype), o.device), true);
  fill_uniform(gates.value(), {o.seed, kGates}, 0.5, 1.5);
  return {.active = active, .leaves = {leaf, gates}, .forward = [=] {
            return head_sparse_attention_packed(leaf, gates, lists, {.causal = causal});
          }};
}

AttentionComparison compare(const AttentionBenchOptions& o, std::int64_t tokens, bool causal) {
  const Tensor qkv = empty({o.batch, tokens, o.heads + 2 * o.kv_heads, o.head_dim}, o.dtype, o.device);
  const Tensor dout = empty({o.batch, tokens, o.heads, o.head_dim}, o.dtype, o.device);
  fill_normal(qkv, {o.seed, kInputs}, 0.0, 1.0);
  fill_normal(dout, {o.seed, kCotangent}, 0.0, 1.0);
  AttentionComparison c{tokens, causal, std::ranges::count(o.active, 1.0) > 0, dout, {}};
  c.candidates.push_back(dense_candidate(o, causal, qkv));
  if (o.listed) c.candidates.push_back(listed_candidate(o, causal, qkv, 1.0));
  for (double active : o.active) {
    if (active != 1.0) c.candidates.push_back(listed_candidate(o, causal, qkv, active));
  }
  return c;
}

Row describe(const AttentionBenchOptions& o, const AttentionComparison& c,
             const AttentionCandidate& candidate) {
  const double pairs_share =  // the same for every position
      static_cast<double>(o.kept_heads(candidate.active)) / static_cast<double>(o.heads);
  Row row = first_members(o, candidate.dense ? "attention" : "head_sparse_attention", c);
  row.add("heads", o.heads);
  row.add("kv_heads", o.kv_heads);
  row.add("head_dim", o.head_dim);
  add_mask(row, c);
  row.show({"form", {}, -6}, candidate.dense ? "dense" : "listed");
  row.add("active", candidate.active, {"active", Row::significant(3)});
  row.add("pairs_share", pairs_share, {"pairs", Row::fixed(3), -6});
  add_medians(row, candidate.times);
  add_ratios(row, candidate.times, c);
  const double pairs = static_cast<double>(o.batch * o.heads * c.tokens) * c.visible_keys() * pairs_share;
  const double megaflops = pairs * static_cast<double>(o.head_dim) * 1e-6;
  row.add("forward_gflops", 4 * megaflops / median(candidate.times.forward));
  row.add("forward_backward_gflops", 14 * megaflops / median(candidate.times.both),
          {"GFLOP/s", Row::fixed(0)});
  return row;
}

}  // namespace

void run_attention_bench(const AttentionBenchOptions& asked, const std::function<void(const Row&)>& on_row) {
  AttentionBenchOptions options = asked;
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  check(options);
  run_attention_cases(
      options, [&](std::int64_t tokens, bool causal) { return compare(options, tokens, causal); },
      [&](const AttentionComparison& c, const AttentionCandidate& candidate) {
        return describe(options, c, candidate);
      },
      on_row);
}

}  // namespace moh
