#include "train/tasks/language/decode_bench.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "autograd/profile.h"
#include "core/cpu_isa.h"
#include "core/device_clock.h"
#include "core/parallel.h"
#include "core/random.h"
#include "models/llm/llama.h"
#include "train/bench/attention_cases.h"
#include "train/config/enum_names.h"
#include "train/math/statistics.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum Stream : std::uint64_t { kKeys, kValues };

constexpr std::string_view kBench = "bench decode";
/// The ops that are the attention part of a token.
constexpr std::string_view kAttentionOps[] = {"attention_decode", "build_head_lists"};

void check(const DecodeBenchOptions& o) {
  for (const auto& [name, value] : {std::pair<std::string_view, std::int64_t>{"batch", o.batch},
                                    {"tokens", o.tokens},
                                    {"repeats", o.repeats}}) {
    require_option(value >= 1, kBench, name, "1 or more", std::to_string(value));
  }
  require_option(o.warmups >= 0, kBench, "warmups", "0 or more", std::to_string(o.warmups));
  for (const std::int64_t context : o.contexts) {
    require_option(context >= 1, kBench, "context", "1 or more", std::to_string(context));
  }
  for (const double active : o.active) {
    require_option(active > 0.0 && active <= 1.0, kBench, "active", "a share above 0, at most 1",
                   std::to_string(active));
  }
}

LlamaConfig dense_model(const DecodeBenchOptions& o) {
  LlamaConfig config = o.model;
  config.max_positions = *std::ranges::max_element(o.contexts) + o.tokens;
  config.moh = {};
  return config;
}

LlamaConfig routed_model(const DecodeBenchOptions& o, RouterKind router, std::int64_t kept) {
  LlamaConfig config = dense_model(o);
  const std::int64_t shared = std::min(config.heads / 8, kept - 1);
  config.moh.router = router;
  config.moh.num_shared = shared;
  config.moh.top_k = kept - shared;
  return config;
}

/// A model, and what its passes took.
struct Candidate {
  Candidate(const LlamaConfig& config, const DecodeBenchOptions& o)
      : model(std::make_unique<Llama>(config, Placement(o.dtype, o.device))) {
    model->initialise(o.seed);
  }
  bool dense() const { return model->config().moh.router == RouterKind::kNone; }

  std::unique_ptr<Llama> model;
  std::vector<double> token_ms, attention_ms;
};

/// The dense model first, whether it is asked for or not.
std::vector<Candidate> candidates_for(const DecodeBenchOptions& o) {
  std::vector<Candidate> candidates;
  candidates.emplace_back(dense_model(o), o);
  const std::int64_t heads = o.model.heads;
  for (const double active : o.active) {
    const std::int64_t kept =
        std::clamp<std::int64_t>(std::llround(active * static_cast<double>(heads)), 1, heads);
    if (kept == heads) continue;
    for (const RouterKind router : o.routers) candidates.emplace_back(routed_model(o, router, kept), o);
  }
  return candidates;
}

KvCache filled_cache(const Llama& model, const DecodeBenchOptions& o) {
  KvCache cache = model.make_cache(o.batch, model.config().max_positions);
  for (LayerCache& layer : cache.layers) {
    fill_normal(layer.k, {o.seed, kKeys}, 0.0, 1.0);
    fill_normal(layer.v, {o.seed, kValues}, 0.0, 1.0);
  }
  return cache;
}

/// Generates o.tokens tokens behind `context` tokens of the cache. Which tokens they are does not matter.
void generate(const Llama& model, KvCache& cache, std::int64_t context, const DecodeBenchOptions& o) {
  for (LayerCache& layer : cache.layers) layer.length = context;
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    model.decode(full({o.batch, 1}, static_cast<double>(i % model.config().vocab_size), DType::kInt64),
                 cache);
  }
}

void run_pass(Candidate& candidate, KvCache& cache, std::int64_t context, const DecodeBenchOptions& o) {
  DeviceClock clock(o.device);
  const auto ms_per_token = [&](double seconds) { return seconds * 1e3 / static_cast<double>(o.tokens); };
  const DeviceClock::Mark begin = clock.mark();
  generate(*candidate.model, cache, context, o);
  candidate.token_ms.push_back(ms_per_token(clock.seconds(begin, clock.mark())));

  double attention = 0;
  Profiler profiler(clock);
  generate(*candidate.model, cache, context, o);
  for (const ProfileEntry& entry : profiler.entries()) {
    if (std::ranges::count(kAttentionOps, entry.op) > 0) attention += entry.seconds;
  }
  candidate.attention_ms.push_back(ms_per_token(attention));
}

void measure(std::vector<Candidate>& candidates, KvCache& cache, std::int64_t context,
             const DecodeBenchOptions& o) {
  for (Candidate& candidate : candidates) {
    for (int i = 0; i < o.warmups; ++i) run_pass(candidate, cache, context, o);
    candidate.token_ms.clear();
    candidate.attention_ms.clear();
  }
  for (int i = 0; i < o.repeats; ++i) {
    for (Candidate& candidate : candidates) run_pass(candidate, cache, context, o);
  }
}

DecodeBenchRecord summary(const DecodeBenchOptions& o, std::int64_t context, const Candidate& candidate,
                          const Candidate& dense) {
  const LlamaConfig& model = candidate.model->config();
  const RouterOptions router = routing_of(model, 0).router;
  DecodeBenchRecord r;
  r.device = device_name(o.device);
  r.dtype = dtype_name(o.dtype);
  r.isa = cpu_isa_name(cpu_isa());
  r.threads = num_threads();
  r.batch = o.batch;
  r.context = context;
  r.layers = model.layers;
  r.hidden = model.hidden;
  r.heads = model.heads;
  r.kv_heads = model.kv_heads;
  r.head_dim = model.head_dim;
  r.router = name_of(model.moh.router);
  r.active = activated_heads(*candidate.model);
  r.shared = router.num_shared;
  r.routed = router.top_k;
  r.token_ms = median(candidate.token_ms);
  r.tokens_per_s = static_cast<double>(o.batch) / (r.token_ms * 1e-3);
  r.spread = relative_spread(candidate.token_ms);
  r.ratio = median_ratio(candidate.token_ms, dense.token_ms);
  r.attention_ms = median(candidate.attention_ms);
  r.attention_spread = relative_spread(candidate.attention_ms);
  r.attention_ratio = median_ratio(candidate.attention_ms, dense.attention_ms);
  return r;
}

}  // namespace

void run_decode_bench(const DecodeBenchOptions& options,
                      const std::function<void(const DecodeBenchRecord&)>& on_record) {
  check(options);
  open_device(options.device);
  const bool show_dense = std::ranges::count(options.active, 1.0) > 0;
  std::vector<Candidate> candidates = candidates_for(options);
  KvCache cache = filled_cache(*candidates.front().model, options);
  for (const std::int64_t context : options.contexts) {
    measure(candidates, cache, context, options);
    for (const Candidate& candidate : candidates) {
      if (candidate.dense() && !show_dense) continue;
      on_record(summary(options, context, candidate, candidates.front()));
    }
  }
}

void write_json_line(std::ostream& out, const DecodeBenchRecord& r) {
  const nlohmann::ordered_json line = {{"device", r.device},
                                       {"dtype", r.dtype},
                                       {"isa", r.isa},
                                       {"threads", r.threads},
                                       {"batch", r.batch},
                                       {"context", r.context},
                                       {"layers", r.layers},
                                       {"hidden", r.hidden},
                                       {"heads", r.heads},
                                       {"kv_heads", r.kv_heads},
                                       {"head_dim", r.head_dim},
                                       {"router", r.router},
                                       {"active", r.active},
                                       {"shared", r.shared},
                                       {"routed", r.routed},
                                       {"tokens_per_s", r.tokens_per_s},
                                       {"token_ms", r.token_ms},
                                       {"spread", r.spread},
                                       {"ratio", r.ratio},
                                       {"attention_ms", r.attention_ms},
                                       {"attention_spread", r.attention_spread},
                                       {"attention_ratio", r.attention_ratio}};
  out << line.dump() << '\n';
}

void write_decode_table_head(std::ostream& out) {
  out << "context  router      active  tokens/s  ms/token  spread  /dense  attention ms  spread  /dense\n";
}

void write_table_line(std::ostream& out, const DecodeBenchRecord& r) {
  char line[160];
  std::snprintf(line, sizeof line,
                "%7lld  %-10s  %6.3g  %8.1f  %8.3f  %5.1f%%  %6.3f  %12.3f  %5.1f%%  %6.3f\n",
                static_cast<long long>(r.context), r.router.c_str(), r.active, r.tokens_per_s, r.token_ms,
                r.spread * 100, r.ratio, r.attention_ms, r.attention_spread * 100, r.attention_ratio);
  out << line;
}

}  // namespace moh
