#include "train/bench/module_bench.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "core/error.h"
#include "core/random.h"
#include "models/layers/moh_attention.h"
#include "models/llm/llama_layers.h"
#include "ops/attention/attention.h"
#include "ops/shape/reshape.h"
#include "train/bench/timed_pass.h"
#include "train/math/statistics.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum Stream : std::uint64_t { kInputs, kCotangent };

using Forward = std::function<Variable(const Variable& x)>;

constexpr std::string_view kBench = "bench module";

void check(const ModuleBenchOptions& o) {
  check(o, kBench);
  require_option(o.width >= 1, kBench, "width", "1 or more", std::to_string(o.width));
  require_option(o.head_dim % 2 == 0, kBench, "head-dim", "an even number", std::to_string(o.head_dim));
}

HeadRoutingOptions routing_for(const ModuleBenchOptions& o, std::int64_t kept) {
  const std::int64_t shared = std::min(o.heads / 8, kept - 1);
  return {RouterKind::kLearned, {o.heads, shared, kept - shared}};
}

/// A plain multi-head layer of vision transformers.
class DenseAttention : public Module {
 public:
  explicit DenseAttention(const ModuleBenchOptions& o)
      : heads_(o.heads),
        qkv_(o.width, 3 * o.heads * o.head_dim, true, {o.dtype, o.device}),
        proj_(o.heads * o.head_dim, o.width, true, {o.dtype, o.device}) {
    add_child("qkv", qkv_);
    add_child("proj", proj_);
  }
  Variable forward(const Variable& x) const {
    const std::int64_t batch = x.dim(0), tokens = x.dim(1);
    const Variable qkv = reshape(qkv_(x), {batch, tokens, 3 * heads_, -1});
    return proj_(reshape(attention_packed(qkv, heads_, heads_, {.causal = false}), {batch, tokens, -1}));
  }

 private:
  std::int64_t heads_;
  Linear qkv_, proj_;
};

LlamaConfig llama_of(const ModuleBenchOptions& o, std::int64_t tokens, std::int64_t kept) {
  LlamaConfig c;
  c.hidden = o.width;
  c.heads = c.kv_heads = o.heads;
  c.head_dim = o.head_dim;
  c.max_positions = tokens;
  if (kept == o.heads) return c;
  const HeadRoutingOptions routing = routing_for(o, kept);
  c.moh.router = routing.kind;
  c.moh.num_shared = routing.router.num_shared;
  c.moh.top_k = routing.router.top_k;
  return c;
}

/// A layer at one share of heads, ready to run again and again.
class Candidate {
 public:
  Candidate(const ModuleBenchOptions& o, std::int64_t tokens, bool causal, std::int64_t active,
            const Tensor& x, const Tensor& dout)
      : kept(active), dense(active == o.heads), timer(o.device), x_(x, true), dout_(dout) {
    const Placement placement(o.dtype, o.device);
    if (causal) {
      const auto layer = std::make_shared<LlamaAttention>(llama_of(o, tokens, kept), 0, placement);
      const RopeTable table = rope_table(tokens, o.head_dim, 10000.0, DType::kFloat32, o.device);
      set(layer, o, [layer, table](const Variable& in) { return layer->forward(in, table).y; });
    } else if (dense) {
      const auto layer = std::make_shared<DenseAttention>(o);
      set(layer, o, [layer](const Variable& in) { return layer->forward(in); });
    } else {
      const auto layer = std::make_shared<MohAttention>(
          MohAttentionOptions{o.width, o.heads, o.head_dim, routing_for(o, kept)}, placement);
      set(layer, o, [layer](const Variable& in) { return layer->forward(in).y; });
    }
  }

  /// One pass.
  void run() {
    x_.zero_grad();
    for (NamedParameter& p : parameters_) p.variable.zero_grad();
    timer.pass([&] { return forward_(x_); }, dout_);
  }

  std::int64_t kept;
  bool dense;
  PassTimer timer;
  PassTimes times;

 private:
  void set(std::shared_ptr<Module> layer, const ModuleBenchOptions& o, Forward forward) {
    layer_ = std::move(layer);
    forward_ = std::move(forward);
    const double std = 1.0 / std::sqrt(static_cast<double>(o.width));
    parameters_ = layer_->parameters();
    for (const NamedParameter& p : parameters_) {
      fill_normal(p.variable.value(), initialisation_key(o.seed, p.name), 0.0, std);
    }
  }

  std::shared_ptr<Module> layer_;
  std::vector<NamedParameter> parameters_;
  Forward forward_;
  Variable x_;
  Tensor dout_;
};

ModuleBenchRecord summary(const ModuleBenchOptions& o, std::int64_t tokens, bool causal,
                          const Candidate& candidate, const Candidate& dense) {
  ModuleBenchRecord r;
  r.op = candidate.dense ? "attention_module" : "moh_attention_module";
  r.device = device_name(o.device);
  r.dtype = dtype_name(o.dtype);
  r.batch = o.batch;
  r.tokens = tokens;
  r.width = o.width;
  r.heads = o.heads;
  r.head_dim = o.head_dim;
  r.causal = causal;
  r.active = static_cast<double>(candidate.kept) / static_cast<double>(o.heads);
  r.forward_ms = median(candidate.times.forward_ms);
  r.forward_backward_ms = median(candidate.times.forward_backward_ms);
  r.forward_spread = relative_spread(candidate.times.forward_ms);
  r.spread = relative_spread(candidate.times.forward_backward_ms);
  r.forward_ratio = median_ratio(candidate.times.forward_ms, dense.times.forward_ms);
  r.forward_backward_ratio =
      median_ratio(candidate.times.forward_backward_ms, dense.times.forward_backward_ms);
  const double visible = causal ? static_cast<double>(tokens + 1) / 2 : static_cast<double>(tokens);
  r.ideal_forward_saving = attention_module_multiplications(o, visible, o.heads, false) /
                           attention_module_multiplications(o, visible, candidate.kept, !candidate.dense);
  r.achieved_of_ideal = 1.0 / r.forward_ratio / r.ideal_forward_saving;
  return r;
}

/// All shares of heads at one length, the dense layer first whether it is asked for or not.
std::vector<Candidate> candidates_for(const ModuleBenchOptions& o, std::int64_t tokens, bool causal) {
  const Tensor x = empty({o.batch, tokens, o.width}, o.dtype, o.device), dout = empty_like(x);
  fill_normal(x, {o.seed, kInputs}, 0.0, 1.0);
  fill_normal(dout, {o.seed, kCotangent}, 0.0, 1.0);
  std::vector<Candidate> candidates;
  candidates.emplace_back(o, tokens, causal, o.heads, x, dout);
  for (double active : o.active) {
    const std::int64_t kept = o.kept_heads(active);
    if (kept < o.heads) candidates.emplace_back(o, tokens, causal, kept, x, dout);
  }
  return candidates;
}

}  // namespace

double attention_module_multiplications(const ModuleBenchOptions& o, double visible,
                                        std::int64_t active_heads, bool routed) {
  const auto width = static_cast<double>(o.width), d = static_cast<double>(o.head_dim);
  const auto heads = static_cast<double>(o.heads), active = static_cast<double>(active_heads);
  return 2 * (active + heads) * d * width + 2 * active * d * visible + (routed ? (heads + 2) * width : 0.0);
}

void run_module_bench(const ModuleBenchOptions& options,
                      const std::function<void(const ModuleBenchRecord&)>& on_record) {
  check(options);
  open_device(options.device);
  const bool show_dense = std::any_of(options.active.begin(), options.active.end(), [&](double active) {
    return options.kept_heads(active) == options.heads;
  });
  for (std::int64_t tokens : options.tokens) {
    for (bool causal : options.causal) {
      std::vector<Candidate> candidates = candidates_for(options, tokens, causal);
      run_interleaved(candidates, options.warmups, options.repeats);
      for (const Candidate& candidate : candidates) {
        if (candidate.dense && !show_dense) continue;
        on_record(summary(options, tokens, causal, candidate, candidates.front()));
      }
    }
  }
}

void write_json_line(std::ostream& out, const ModuleBenchRecord& r) {
  const nlohmann::ordered_json line = {{"op", r.op},
                                       {"device", r.device},
                                       {"dtype", r.dtype},
                                       {"batch", r.batch},
                                       {"tokens", r.tokens},
                                       {"width", r.width},
                                       {"heads", r.heads},
                                       {"head_dim", r.head_dim},
                                       {"causal", r.causal},
                                       {"active", r.active},
                                       {"forward_ms", r.forward_ms},
                                       {"forward_backward_ms", r.forward_backward_ms},
                                       {"forward_spread", r.forward_spread},
                                       {"spread", r.spread},
                                       {"forward_ratio", r.forward_ratio},
                                       {"forward_backward_ratio", r.forward_backward_ratio},
                                       {"ideal_forward_saving", r.ideal_forward_saving},
                                       {"achieved_of_ideal", r.achieved_of_ideal}};
  out << line.dump() << '\n';
}

void write_module_table_head(std::ostream& out) {
  out << "tokens  mask    active  forward ms  fwd+bwd ms  spread  fwd/dense  fwd+bwd/dense  ideal fwd  of "
         "ideal\n";
}

void write_table_line(std::ostream& out, const ModuleBenchRecord& r) {
  char line[160];
  std::snprintf(line, sizeof line,
                "%6lld  %-6s  %6.3g  %10.3f %11.3f  %5.1f%%  %9.3f  %13.3f  %9.3f  %7.1f%%\n",
                static_cast<long long>(r.tokens), r.causal ? "causal" : "full", r.active, r.forward_ms,
                r.forward_backward_ms, r.spread * 100, r.forward_ratio, r.forward_backward_ratio,
                1.0 / r.ideal_forward_saving, r.achieved_of_ideal * 100);
  out << line;
}

}  // namespace moh
