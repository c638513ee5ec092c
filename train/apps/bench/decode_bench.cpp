#include "train/apps/bench/decode_bench.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "autograd/profile.h"
#include "core/cpu_isa.h"
#include "core/device_clock.h"
#include "core/parallel.h"
#include "core/random.h"
#include "models/llm/llama.h"
#include "train/apps/bench/decode_bytes.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/require_option.h"
#include "train/trainer/config/enum_names.h"

namespace moh {

namespace {

/// Streams of random numbers.
enum DecodeStream : std::uint64_t { kKeys, kValues };

constexpr std::string_view kDecodeBench = "bench decode";
/// The ops that count for attention_ms.
constexpr std::string_view kAttentionOps[] = {"attention_decode", "build_head_lists", "head_slots",
                                              "gather_heads",     "scatter_heads",    "head_sequences",
                                              "gather_pairs",     "scatter_pairs"};

void check(const DecodeBenchOptions& o) {
  for (const auto& [name, value] : {std::pair<std::string_view, std::int64_t>{"batch", o.batch},
                                    {"tokens", o.tokens},
                                    {"repeats", o.repeats}}) {
    require_option(value >= 1, kDecodeBench, name, "1 or more", value);
  }
  require_option(o.warmups >= 0, kDecodeBench, "warmups", "0 or more", o.warmups);
  for (const std::int64_t context : o.contexts) {
    require_option(context >= 1, kDecodeBench, "context", "1 or more", context);
  }
  const LlamaConfig model = spelt_out(o.model);
  require_option(!o.routed_keys || model.kv_heads == model.heads, kDecodeBench, "kv-heads",
                 "as many as heads with --routed-keys", model.kv_heads);
  for (const double active : o.active) {
    require_option(active > 0.0 && active <= 1.0, kDecodeBench, "active", "a share above 0, at most 1",
                   active);
  }
}

LlamaConfig configured_model(const DecodeBenchOptions& o) {
  LlamaConfig config = o.model;
  config.max_positions = *std::ranges::max_element(o.contexts) + o.tokens;
  return config;
}

LlamaConfig dense_model(const DecodeBenchOptions& o) {
  LlamaConfig config = configured_model(o);
  config.moh = {};
  return config;
}

QueryGroups layer_of(const DecodeBenchOptions& o) {
  return {o.model.heads, spelt_out(o.model).kv_heads};
}

LlamaConfig routed_model(const DecodeBenchOptions& o, RouterKey router, RoutingKey rule, std::int64_t kept) {
  LlamaConfig config = dense_model(o);
  const QueryGroups layer = layer_of(o);
  const std::int64_t parts = rule->parts(layer);
  const std::int64_t shared = std::min(rule->units(layer) / 8, kept - 1) / parts * parts;
  config.moh.router = router;
  config.moh.routing = rule;
  config.moh.num_shared = shared;
  config.moh.top_k = kept - shared;
  return config;
}

/// A model and the times of its passes.
struct DecodeCandidate {
  DecodeCandidate(const LlamaConfig& config, const DecodeBenchOptions& o)
      : model(std::make_unique<Llama>(config, Placement(o.dtype, o.device))) {
    model->initialise(o.seed);
  }
  bool routes_keys() const { return model->config().moh.routed == RoutedRows::kQueriesKeysValues; }

  std::unique_ptr<Llama> model;
  std::optional<KvCache> cache;  ///< its own, if it routes keys
  std::vector<double> token_ms, attention_ms;
};

/// The dense model comes first, as ratios refer to it, even if it is not among the requested shares.
std::vector<DecodeCandidate> candidates_for(const DecodeBenchOptions& o) {
  std::vector<DecodeCandidate> candidates;
  candidates.emplace_back(dense_model(o), o);
  if (o.configured) {
    candidates.emplace_back(configured_model(o), o);
    return candidates;
  }
  for (const double active : o.active) {
    for (const RoutingKey rule : o.routings) {
      const std::int64_t units = rule->units(layer_of(o));
      const std::int64_t kept =
          std::clamp<std::int64_t>(std::llround(active * static_cast<double>(units)), 1, units);
      if (kept == units || kept % rule->parts(layer_of(o)) != 0) continue;
      for (const RouterKey router : o.routers) {
        LlamaConfig config = routed_model(o, router, rule, kept);
        candidates.emplace_back(config, o);
        if (!o.routed_keys || rule != routings::kHeads) continue;
        config.moh.routed = RoutedRows::kQueriesKeysValues;
        candidates.emplace_back(config, o);
      }
    }
  }
  return candidates;
}

void fill(LayerCache& layer, const DecodeBenchOptions& o) {
  for (LayerCache& head : layer.heads()) fill(head, o);
  if (!layer.heads().empty()) return;
  fill_normal(layer.k(), {o.seed, kKeys}, 0.0, 1.0);
  fill_normal(layer.v(), {o.seed, kValues}, 0.0, 1.0);
}

/// As if a cache had taken `context` tokens, of which routed heads with a cache of their own have equal
/// shares.
void set_length(KvCache& cache, const LlamaConfig& config, std::int64_t context) {
  const RouterOptions router = routing_of(config, 0).router;
  for (LayerCache& layer : cache.layers) {
    layer.set_length(context);
    for (std::size_t i = 0; i < layer.heads().size(); ++i) {
      const bool shared = static_cast<std::int64_t>(i) % config.heads < router.num_shared;
      layer.heads()[i].set_length(shared ? context
                                         : context * router.top_k / (router.heads - router.num_shared));
    }
  }
}

KvCache filled_cache(const Llama& model, const DecodeBenchOptions& o) {
  KvCache cache = model.make_cache(o.batch, model.config().max_positions);
  set_length(cache, model.config(), model.config().max_positions);
  for (LayerCache& layer : cache.layers) fill(layer, o);
  return cache;
}

/// Generates o.tokens tokens after `context` tokens of the cache. The ids do not matter.
void generate(const Llama& model, KvCache& cache, std::int64_t context, const DecodeBenchOptions& o) {
  set_length(cache, model.config(), context);
  for (std::int64_t i = 0; i < o.tokens; ++i) {
    model.decode(full({o.batch, 1}, static_cast<double>(i % model.config().vocab_size), DType::kInt64),
                 cache);
  }
}

void run_pass(DecodeCandidate& candidate, KvCache& of_all, std::int64_t context,
              const DecodeBenchOptions& o) {
  KvCache& cache = candidate.cache ? *candidate.cache : of_all;
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

void measure(std::vector<DecodeCandidate>& candidates, KvCache& cache, std::int64_t context,
             const DecodeBenchOptions& o) {
  for (DecodeCandidate& candidate : candidates) {
    for (int i = 0; i < o.warmups; ++i) run_pass(candidate, cache, context, o);
    candidate.token_ms.clear();
    candidate.attention_ms.clear();
  }
  for (int i = 0; i < o.repeats; ++i) {
    for (DecodeCandidate& candidate : candidates) run_pass(candidate, cache, context, o);
  }
}

/// Width of the column of routings.
int routing_width(const DecodeBenchOptions& o) {
  std::size_t width = std::string_view("routing").size();
  for (const RoutingKey rule : o.routings) width = std::max(width, rule->name.size());
  return static_cast<int>(width);
}

Row row_of(const DecodeBenchOptions& o, std::int64_t context, const DecodeCandidate& candidate,
           const DecodeCandidate& dense) {
  const LlamaConfig& model = candidate.model->config();
  const RouterOptions router = routing_of(model, 0).router;
  const double token_ms = median(candidate.token_ms);
  Row row;
  row.add("device", device_name(o.device));
  row.add("dtype", std::string(dtype_name(o.dtype)));
  row.add("isa", std::string(cpu_isa_name(cpu_isa())));
  row.add("threads", num_threads());
  row.add("batch", o.batch);
  row.add("context", context, {"context"});
  row.add("layers", model.layers);
  row.add("hidden", model.hidden);
  row.add("heads", model.heads);
  row.add("kv_heads", model.kv_heads);
  row.add("head_dim", model.head_dim);
  row.add("router", std::string(name_of(model.moh.router)), {"router", {}, -10});
  row.add("routing", std::string(name_of(model.moh.routing)), {"routing", {}, -routing_width(o)});
  if (o.routed_keys) row.add("routed_rows", std::string(name_of(model.moh.routed)), {"rows", {}, -19});
  row.add("active", activated_heads(*candidate.model), {"active", Row::significant(3)});
  row.add("shared", router.num_shared);
  row.add("routed", router.top_k);
  const DecodeBytes bytes = decode_bytes(*candidate.model, context);
  row.add("kv_bytes_per_token", bytes.stored);
  row.add("read_bytes_per_token", bytes.read);
  row.add("tokens_per_s", static_cast<double>(o.batch) / (token_ms * 1e-3), {"tokens/s", Row::fixed(1)});
  row.add("token_ms", token_ms, {"ms/token", Row::fixed(3)});
  row.add("spread", relative_spread(candidate.token_ms), {"spread", Row::percent(1)});
  row.add("ratio", median_ratio(candidate.token_ms, dense.token_ms), {"/dense", Row::fixed(3)});
  row.add("attention_ms", median(candidate.attention_ms), {"attention ms", Row::fixed(3)});
  row.add("attention_spread", relative_spread(candidate.attention_ms), {"spread", Row::percent(1)});
  row.add("attention_ratio", median_ratio(candidate.attention_ms, dense.attention_ms),
          {"/dense", Row::fixed(3)});
  return row;
}

}  // namespace

void run_decode_bench(const DecodeBenchOptions& options, const std::function<void(const Row&)>& on_row) {
  check(options);
  open_device(options.device);
  const bool show_dense = options.configured || std::ranges::count(options.active, 1.0) > 0;
  std::vector<DecodeCandidate> candidates = candidates_for(options);
  KvCache cache = filled_cache(*candidates.front().model, options);
  for (DecodeCandidate& candidate : candidates) {
    if (candidate.routes_keys()) candidate.cache = filled_cache(*candidate.model, options);
  }
  for (const std::int64_t context : options.contexts) {
    measure(candidates, cache, context, options);
    for (const DecodeCandidate& candidate : candidates) {
      if (&candidate == &candidates.front() && !show_dense) continue;
      on_row(row_of(options, context, candidate, candidates.front()));
    }
  }
}

}  // namespace moh
