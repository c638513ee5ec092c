#include "train/bench/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "autograd/variable.h"
#include "core/error.h"
#include "core/random.h"
#include "ops/attention/attention.h"
#include "train/bench/timed_pass.h"
#include "train/math/statistics.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum Stream : std::uint64_t { kInputs, kGates, kCotangent, kSelection };

constexpr std::string_view kBench = "bench attention";
constexpr std::string_view kDenseOp = "attention", kListedOp = "head_sparse_attention";

void check(const AttentionBenchOptions& o) {
  check(o, kBench);
  require_option(o.kv_heads >= 1, kBench, "kv-heads", "1 or more", std::to_string(o.kv_heads));
  require_option(o.heads % o.kv_heads == 0, kBench, "kv-heads",
                 "a divisor of the " + std::to_string(o.heads) + " heads", std::to_string(o.kv_heads));
}

/// uint8 [B, T, H] with `kept` heads per token: the first `shared` always, the rest drawn from the others.
Tensor random_selection(const Shape& shape, std::int64_t shared, std::int64_t kept, std::uint64_t seed) {
  const std::int64_t heads = shape[2];
  Tensor selected = zeros(shape, DType::kUInt8);
  std::vector<std::int64_t> routed(static_cast<std::size_t>(heads - shared));
  std::uint64_t draws = 0;
  for (std::int64_t token = 0; token < shape[0] * shape[1]; ++token) {
    std::uint8_t* bits = selected.data<std::uint8_t>() + token * heads;
    std::fill_n(bits, shared, std::uint8_t{1});
    std::iota(routed.begin(), routed.end(), shared);
    for (std::int64_t i = 0; i < kept - shared; ++i) {  // the first steps of a Fisher-Yates shuffle
      const auto left = static_cast<std::uint64_t>(heads - shared - i);
      const std::uint64_t pick = random_below({seed, kSelection}, draws++, left);
      std::swap(routed[static_cast<std::size_t>(i)], routed[static_cast<std::size_t>(i) + pick]);
      bits[routed[static_cast<std::size_t>(i)]] = 1;
    }
  }
  return selected;
}

/// How the heads to compute are given.
enum class Form : std::uint8_t { kDense, kListed };

/// Attention at one share of heads, ready to run again and again on inputs that all shares have in common.
class Candidate {
 public:
  Candidate(const AttentionBenchOptions& o, std::int64_t tokens, bool causal, Form form, double active,
            const Tensor& qkv, const Tensor& dout)
      : timer(o.device),
        form_(form),
        heads_(o.heads),
        kv_heads_(o.kv_heads),
        active_(active),
        qkv_(qkv, true),
        dout_(dout) {
    options_.causal = causal;
    if (dense()) return;
    const std::int64_t kept = o.kept_heads(active);
    const std::int64_t shared = std::min(heads_ / 8, kept);
    const Tensor selected = random_selection({o.batch, tokens, heads_}, shared, kept, o.seed);
    lists_ = build_head_lists(selected.to(o.device), kv_heads_, kept);
    Tensor gates = empty({o.batch, tokens, heads_}, accumulate_dtype(o.dtype), o.device);
    fill_uniform(gates, {o.seed, kGates}, 0.5, 1.5);
    gates_ = Variable(gates, true);
    pairs_share_ = static_cast<double>(kept) / static_cast<double>(heads_);  // the same for every position
  }

  bool dense() const { return form_ == Form::kDense; }
  double active() const { return active_; }
  double pairs_share() const { return pairs_share_; }

  /// One pass.
  void run() {
    qkv_.zero_grad();
    if (gates_.defined()) gates_.zero_grad();
    timer.pass(
        [&] {
          return dense() ? attention_packed(qkv_, heads_, kv_heads_, options_)
                         : head_sparse_attention_packed(qkv_, gates_, lists_, options_);
        },
        dout_);
  }

  PassTimer timer;
  PassTimes times;

 private:
  Form form_;
  std::int64_t heads_, kv_heads_;
  double active_, pairs_share_ = 1.0;
  Variable qkv_, gates_;
  Tensor dout_;
  HeadLists lists_;
  AttentionOptions options_;
};

AttentionBenchRecord summary(const AttentionBenchOptions& o, std::int64_t tokens, bool causal,
                             const Candidate& candidate, const Candidate& dense) {
  AttentionBenchRecord r;
  r.op = candidate.dense() ? kDenseOp : kListedOp;
  r.device = device_name(o.device);
  r.dtype = dtype_name(o.dtype);
  r.batch = o.batch;
  r.tokens = tokens;
  r.heads = o.heads;
  r.kv_heads = o.kv_heads;
  r.head_dim = o.head_dim;
  r.causal = causal;
  r.active = candidate.active();
  r.pairs_share = candidate.pairs_share();
  r.forward_ms = median(candidate.times.forward_ms);
  r.forward_backward_ms = median(candidate.times.forward_backward_ms);
  r.spread = relative_spread(candidate.times.forward_backward_ms);
  r.forward_ratio = median_ratio(candidate.times.forward_ms, dense.times.forward_ms);
  r.forward_backward_ratio =
      median_ratio(candidate.times.forward_backward_ms, dense.times.forward_backward_ms);
  const auto t = static_cast<double>(tokens);
  const double pairs =
      static_cast<double>(o.batch * o.heads) * (causal ? t * (t + 1) / 2 : t * t) * r.pairs_share;
  const double gigaflops = pairs * static_cast<double>(o.head_dim) * 1e-9;
  r.forward_gflops = 4 * gigaflops / (r.forward_ms * 1e-3);
  r.forward_backward_gflops = 14 * gigaflops / (r.forward_backward_ms * 1e-3);
  return r;
}

/// All shares of heads at one length, dense attention first whether it is asked for or not.
std::vector<Candidate> candidates_for(const AttentionBenchOptions& o, std::int64_t tokens, bool causal) {
  const Tensor qkv = empty({o.batch, tokens, o.heads + 2 * o.kv_heads, o.head_dim}, o.dtype, o.device);
  const Tensor dout = empty({o.batch, tokens, o.heads, o.head_dim}, o.dtype, o.device);
  fill_normal(qkv, {o.seed, kInputs}, 0.0, 1.0);
  fill_normal(dout, {o.seed, kCotangent}, 0.0, 1.0);
  std::vector<Candidate> candidates;
  candidates.emplace_back(o, tokens, causal, Form::kDense, 1.0, qkv, dout);
  if (o.listed) candidates.emplace_back(o, tokens, causal, Form::kListed, 1.0, qkv, dout);
  for (double active : o.active) {
    if (active != 1.0) candidates.emplace_back(o, tokens, causal, Form::kListed, active, qkv, dout);
  }
  return candidates;
}

}  // namespace

void run_attention_bench(const AttentionBenchOptions& options,
                         const std::function<void(const AttentionBenchRecord&)>& on_record) {
  check(options);
  open_device(options.device);
  const bool show_dense = std::count(options.active.begin(), options.active.end(), 1.0) > 0;
  for (std::int64_t tokens : options.tokens) {
    for (bool causal : options.causal) {
      std::vector<Candidate> candidates = candidates_for(options, tokens, causal);
      run_interleaved(candidates, options.warmups, options.repeats);
      for (const Candidate& candidate : candidates) {
        if (candidate.dense() && !show_dense) continue;
        on_record(summary(options, tokens, causal, candidate, candidates.front()));
      }
    }
  }
}

void write_json_line(std::ostream& out, const AttentionBenchRecord& r) {
  const nlohmann::ordered_json line = {{"op", r.op},
                                       {"device", r.device},
                                       {"dtype", r.dtype},
                                       {"batch", r.batch},
                                       {"tokens", r.tokens},
                                       {"heads", r.heads},
                                       {"kv_heads", r.kv_heads},
                                       {"head_dim", r.head_dim},
                                       {"causal", r.causal},
                                       {"active", r.active},
                                       {"pairs_share", r.pairs_share},
                                       {"forward_ms", r.forward_ms},
                                       {"forward_backward_ms", r.forward_backward_ms},
                                       {"spread", r.spread},
                                       {"forward_ratio", r.forward_ratio},
                                       {"forward_backward_ratio", r.forward_backward_ratio},
                                       {"forward_gflops", r.forward_gflops},
                                       {"forward_backward_gflops", r.forward_backward_gflops}};
  out << line.dump() << '\n';
}

void write_table_head(std::ostream& out) {
  out << "tokens  mask    form    active  pairs   forward ms  fwd+bwd ms  spread  fwd/dense  fwd+bwd/dense  "
         "GFLOP/s\n";
}

void write_table_line(std::ostream& out, const AttentionBenchRecord& r) {
  char line[160];
  std::snprintf(
      line, sizeof line, "%6lld  %-6s  %-6s  %6.3g  %5.3f  %11.3f %11.3f  %5.1f%%  %9.3f  %13.3f  %7.0f\n",
      static_cast<long long>(r.tokens), r.causal ? "causal" : "full", r.op == kDenseOp ? "dense" : "listed",
      r.active, r.pairs_share, r.forward_ms, r.forward_backward_ms, r.spread * 100, r.forward_ratio,
      r.forward_backward_ratio, r.forward_backward_gflops);
  out << line;
}

}  // namespace moh
