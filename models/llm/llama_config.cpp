#include "models/llm/llama_config.h"

#include <string>
#include <string_view>
#include <utility>

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
  } else if (spelt.head_dim % 2 != 0) {
    const std::string quotient = " (" + faults.key("hidden") + " / " + faults.key("heads") + ")";
    faults.add({"head_dim", "hidden", "heads"}, "an even number (rotary positions rotate pairs)",
               number_text(spelt.head_dim) + (c.head_dim == 0 ? quotient : ""));
  }
  if (c.heads % spelt.kv_heads != 0) {
    faults.add({"kv_heads", "heads"},
               "a divisor of " + faults.key("heads") + " (" + number_text(c.heads) + ")",
               number_text(c.kv_heads));
  }
}

void check_rope_scaling(const RopeScaling& c, ConfigFaults& faults) {
  constexpr std::string_view kKind = "rope_scaling.kind", kFactor = "rope_scaling.factor",
                             kLow = "rope_scaling.low_freq_factor", kHigh = "rope_scaling.high_freq_factor",
                             kPositions = "rope_scaling.original_positions";
  const RopeScaling unset;
  if (c.kind == RopeScalingKind::kNone && c.factor != unset.factor) {
    faults.add({kKind, kFactor}, "a kind for " + faults.key(kFactor), "none", "set it to linear or llama3");
  } else if (c.kind != RopeScalingKind::kNone && c.factor == unset.factor) {
    faults.add({kFactor, kKind}, "a number above 1", number_text(c.factor),
               "or set " + faults.key(kKind) + ": none");
  }
  if (c.kind == RopeScalingKind::kLlama3) {
    if (c.high_freq_factor <= c.low_freq_factor) {
      faults.add({kHigh, kLow}, "more than low_freq_factor (" + number_text(c.low_freq_factor) + ")",
                 number_text(c.high_freq_factor));
    }
  } else if (const RopeScaling other{c.kind, c.factor}; c != other) {
    faults.add({kKind, kLow, kHigh, kPositions},
               "llama3 for low_freq_factor, high_freq_factor and original_positions",
               c.kind == RopeScalingKind::kNone ? "none" : "linear");
  }
}

}  // namespace

LlamaConfig spelt_out(LlamaConfig config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim == 0) config.head_dim = config.hidden / config.heads;
  return config;
}

void check(const LlamaConfig& c, ConfigFaults& faults) {
  if (!check_sizes(c, faults)) return;
  check_numbers(c, faults);
  check_heads(c, faults);
  check_rope_scaling(c.rope_scaling, faults);
  if (c.moh.learn_shared_until != 0)
    faults.add({"moh.learn_shared_until"}, "0 for a language model", number_text(c.moh.learn_shared_until));
  const bool groups = c.moh.routing == RoutingUnit::kGroups;
  check(c.moh, c.layers, groups ? spelt_out(c).kv_heads : c.heads, faults, groups ? "kv_heads" : "heads");
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
