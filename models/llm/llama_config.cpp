#include "models/llm/llama_config.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/attention/attention.h"

namespace moh {

namespace {

/// Checks sizes and their divisibility. Returns whether there is no fault.
bool check_sizes(const LlamaConfig& c, ConfigFaults& faults) {
  const std::size_t before = faults.all().size();
  for (const auto& [field, value] : {std::pair<std::string_view, std::int64_t>{"vocab_size", c.vocab_size},
                                     {"layers", c.layers},
                                     {"hidden", c.hidden},
                                     {"intermediate", c.intermediate},
                                     {"heads", c.heads},
                                     {"max_positions", c.max_positions}}) {
    if (value < 1) faults.add({field}, "1 or more", number_text(value));
  }
  for (const auto& [field, value] :
       {std::pair<std::string_view, std::int64_t>{"kv_heads", c.kv_heads}, {"head_dim", c.head_dim}}) {
    if (value < 0) faults.add({field}, "0 or more", number_text(value));
  }
  return faults.all().size() == before;
}

void check_numbers(const LlamaConfig& c, ConfigFaults& faults) {
  for (const auto& [field, value] : {std::pair<std::string_view, double>{"norm_eps", c.norm_eps},
                                     {"rope_theta", c.rope_theta},
                                     {"init_std", c.init_std}}) {
    if (!(value > 0)) faults.add({field}, "a number above 0", number_text(value));
  }
  if (!(c.dropout >= 0 && c.dropout < 1))
    faults.add({"dropout"}, "0 or more, below 1", number_text(c.dropout));
}

void check_heads(const LlamaConfig& c, ConfigFaults& faults) {
  const LlamaConfig spelt = spelt_out(c);
  if (c.head_dim == 0 && c.hidden % c.heads != 0) {
    faults.add({"heads", "hidden", "head_dim"},
               "a divisor of " + faults.key("hidden") + " (" + number_text(c.hidden) + ")",
               number_text(c.heads), "or set " + faults.key("head_dim"));
  } else if (spelt.head_dim % 2 != 0 || spelt.head_dim > kMostHeadDim) {
    const std::string quotient = " (" + faults.key("hidden") + " / " + faults.key("heads") + ")";
    faults.add({"head_dim", "hidden", "heads"},
               spelt.head_dim % 2 != 0 ? "an even number (rotary positions rotate pairs)"
                                       : "at most " + number_text(kMostHeadDim),
               number_text(spelt.head_dim) + (c.head_dim == 0 ? quotient : ""));
  }
  if (c.heads % spelt.kv_heads != 0) {
    faults.add({"kv_heads", "heads"},
               "a divisor of " + faults.key("heads") + " (" + number_text(c.heads) + ")",
               number_text(c.kv_heads));
  }
}

struct ScalingField {
  std::string_view key;
  bool is_set;                         ///< differs from the default
  std::vector<RopeScalingKind> users;  ///< kinds that read it
};

std::string_view name_of(RopeScalingKind kind) {
  constexpr std::string_view kNames[] = {"none", "linear", "llama3", "yarn", "dynamic"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Values that the kind of scaling does not read.
void check_scaling_fields(const RopeScaling& c, ConfigFaults& faults) {
  using enum RopeScalingKind;
  const RopeScaling unset;
  const ScalingField fields[] = {
      {"rope_scaling.low_freq_factor", c.low_freq_factor != unset.low_freq_factor, {kLlama3}},
      {"rope_scaling.high_freq_factor", c.high_freq_factor != unset.high_freq_factor, {kLlama3}},
      {"rope_scaling.original_positions",
       c.original_positions != unset.original_positions,
       {kLlama3, kYarn, kDynamic}},
      {"rope_scaling.beta_fast", c.beta_fast != unset.beta_fast, {kYarn}},
      {"rope_scaling.beta_slow", c.beta_slow != unset.beta_slow, {kYarn}},
      {"rope_scaling.attention_factor", c.attention_factor != unset.attention_factor, {kYarn}},
      {"rope_scaling.truncate", c.truncate != unset.truncate, {kYarn}}};
  for (const auto& [key, is_set, users] : fields) {
    if (!is_set || std::ranges::count(users, c.kind) > 0) continue;
    std::string kinds;
    for (const RopeScalingKind kind : users) kinds.append(kinds.empty() ? "" : " or ").append(name_of(kind));
    faults.add({"rope_scaling.kind", key}, kinds + " for " + faults.key(key), std::string(name_of(c.kind)));
  }
}

void check_windows(const LlamaConfig& c, ConfigFaults& faults) {
  constexpr std::string_view kKey = "sliding_window";
  const auto count = static_cast<std::int64_t>(c.sliding_window.each.size());
  if (count != 0 && count != c.layers) {
    faults.add({kKey, "layers"},
               "one value, or one per layer (" + faults.key("layers") + " is " + number_text(c.layers) + ")",
               "a list of " + number_text(count));
    return;
  }
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    if (c.sliding_window.at(layer) >= 0) continue;
    return faults.add({kKey}, "0 or more", number_text(c.sliding_window.at(layer)));
  }
}

void check_rope_scaling(const LlamaConfig& model, ConfigFaults& faults) {
  constexpr std::string_view kKind = "rope_scaling.kind", kFactor = "rope_scaling.factor",
                             kLow = "rope_scaling.low_freq_factor", kHigh = "rope_scaling.high_freq_factor",
                             kFast = "rope_scaling.beta_fast", kSlow = "rope_scaling.beta_slow";
  const RopeScaling unset, &c = model.rope_scaling;
  if (c.kind == RopeScalingKind::kNone && c.factor != unset.factor) {
    faults.add({kKind, kFactor}, "a kind for " + faults.key(kFactor), "none",
               "set it to linear, llama3, yarn or dynamic");
  } else if (c.kind != RopeScalingKind::kNone && c.factor == unset.factor) {
    faults.add({kFactor, kKind}, "a number above 1", number_text(c.factor),
               "or set " + faults.key(kKind) + ": none");
  }
  check_scaling_fields(c, faults);
  if (c.kind == RopeScalingKind::kLlama3 && c.high_freq_factor <= c.low_freq_factor) {
    faults.add({kHigh, kLow}, "more than low_freq_factor (" + number_text(c.low_freq_factor) + ")",
               number_text(c.high_freq_factor));
  }
  if (c.kind == RopeScalingKind::kYarn && c.beta_fast <= c.beta_slow) {
    faults.add({kFast, kSlow}, "more than beta_slow (" + number_text(c.beta_slow) + ")",
               number_text(c.beta_fast));
  }
  if (c.kind == RopeScalingKind::kYarn && c.attention_factor < 0)
    faults.add({"rope_scaling.attention_factor"}, "0 or more", number_text(c.attention_factor));
  if (c.kind == RopeScalingKind::kYarn && model.rope_theta <= 1)
    faults.add({"rope_theta", kKind}, "more than 1 with yarn", number_text(model.rope_theta));
  if (c.kind == RopeScalingKind::kDynamic && spelt_out(model).head_dim == 2)
    faults.add({kKind, "head_dim"}, "another kind with a head_dim of 2", "dynamic");
}

/// Settings that go together with keys and values of the selected heads alone.
void check_head_sequences(const LlamaConfig& c, ConfigFaults& faults) {
  const std::string routed = faults.key("moh.routed") + ": queries_keys_values";
  if (std::ranges::any_of(c.sliding_window.each, [](std::int64_t window) { return window != 0; }) ||
      c.sliding_window.every != 0)
    faults.add({"sliding_window", "moh.routed"}, "0 with " + routed, "a window",
               faults.key("moh.shared_window") + " is the one of shared heads");
  if (c.moh.positions == HeadPositions::kHead && c.rope_scaling.kind == RopeScalingKind::kDynamic)
    faults.add({"rope_scaling.kind", "moh.positions"},
               "another kind with " + faults.key("moh.positions") + ": head, where lengths differ by head",
               "dynamic");
}

void check_adapters(const LlamaConfig& c, ConfigFaults& faults) {
  check(c.lora, faults);
  if (c.lora.used() && c.switch_head.used())
    faults.add({"lora.rank", "switch_head.experts"},
               "0 with " + faults.key("switch_head.experts") + ", whose values and outputs are mixtures",
               number_text(c.lora.rank));
}

/// Mixtures of experts in values and outputs, and what they do not go together with.
void check_switch_head(const LlamaConfig& c, ConfigFaults& faults) {
  constexpr std::string_view kExperts = "switch_head.experts", kTopK = "switch_head.top_k";
  const auto& [experts, top_k] = c.switch_head;
  if (experts == 0) {
    if (top_k != 0) faults.add({kTopK, kExperts}, "0 without " + faults.key(kExperts), number_text(top_k));
    return;
  }
  if (experts < 2) return faults.add({kExperts}, "0, or 2 or more", number_text(experts));
  if (top_k < 1 || top_k > experts)
    faults.add({kTopK, kExperts}, "1 to " + faults.key(kExperts) + " (" + number_text(experts) + ")",
               number_text(top_k));
  const std::string with = " with " + faults.key(kExperts);
  if (c.moh.router->routes())
    faults.add({"moh.router", kExperts}, "none" + with + ", which routes values and outputs of all heads",
               std::string(c.moh.router->name));
  for (const auto& [field, is_set] :
       {std::pair<std::string_view, bool>{"qkv_bias", c.qkv_bias}, {"o_bias", c.o_bias}})
    if (is_set) faults.add({field, kExperts}, "false" + with + ", whose experts have no bias", "true");
}

}  // namespace

LlamaConfig spelt_out(LlamaConfig config) {
  config.lora = spelt_out(config.lora);
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.hidden / config.heads;
  if (const auto& each = config.sliding_window.each;
      !each.empty() && std::ranges::all_of(each, [&](std::int64_t window) { return window == each[0]; }))
    config.sliding_window = PerLayer(each[0]);
  return config;
}

void check(const LlamaConfig& c, ConfigFaults& faults) {
  if (!check_sizes(c, faults)) return;
  check_numbers(c, faults);
  check_heads(c, faults);
  check_windows(c, faults);
  check_rope_scaling(c, faults);
  check_switch_head(c, faults);
  check_adapters(c, faults);
  if (c.moh.learn_shared_until != 0)
    faults.add({"moh.learn_shared_until"}, "0 for a language model", number_text(c.moh.learn_shared_until));
  if (c.moh.routed == RoutedRows::kQueriesKeysValues) check_head_sequences(c, faults);
  if (!c.moh.routing->keeps_heads() && c.attention_gate != AttentionGate::kNone)
    faults.add({"attention_gate", "moh.routing"},
               "none with " + faults.key("moh.routing") + ": " + std::string(c.moh.routing->name), "gates",
               "they are of heads, and its outputs are others");
  const std::int64_t kv_heads = spelt_out(c).kv_heads;
  check(c.moh,
        {.layers = c.layers,
         .heads = c.moh.routing->units({c.heads, kv_heads}),
         .heads_field = c.moh.routing->unit_field,
         .kv_heads = kv_heads,
         .sources = {.queries = true}},
        faults);
}

void require_valid(const LlamaConfig& config) {
  ConfigFaults faults;
  check(config, faults);
  faults.throw_first("llama");
}

HeadRoutingOptions routing_of(const LlamaConfig& c, std::int64_t layer) {
  return routing_of(c.moh, c.heads, layer, spelt_out(c).kv_heads);
}

std::vector<HeadRoutingOptions> routing_of(const LlamaConfig& c) {
  std::vector<HeadRoutingOptions> layers;
  for (std::int64_t i = 0; i < c.layers; ++i) layers.push_back(routing_of(c, i));
  return layers;
}

}  // namespace moh
