#include "models/llm/llama_config.h"

#include <string>
#include <string_view>

#include "core/error.h"

namespace moh {

namespace {

void require(bool condition, std::string_view field, const std::string& expected, double found) {
  if (condition) return;
  std::string text = std::to_string(found);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  throw ValueError(error_message("llama", field, expected, text));
}

template <class T>
const T& per_layer(const std::vector<T>& values, std::int64_t layer) {
  return values.size() == 1 ? values[0] : values[static_cast<std::size_t>(layer)];
}

template <class T>
void check_per_layer(std::string_view field, const std::vector<T>& values, std::int64_t layers) {
  const auto count = static_cast<std::int64_t>(values.size());
  require(count == 1 || count == layers, field, "1 value or one per layer (" + std::to_string(layers) + ")",
          static_cast<double>(count));
}

}  // namespace

void check(const LlamaConfig& c) {
  for (auto [field, value] :
       {std::pair{"vocab_size", c.vocab_size}, std::pair{"layers", c.layers}, std::pair{"hidden", c.hidden},
        std::pair{"intermediate", c.intermediate}, std::pair{"heads", c.heads},
        std::pair{"kv_heads", c.kv_heads}, std::pair{"head_dim", c.head_dim},
        std::pair{"max_positions", c.max_positions}}) {
    require(value > 0, field, "1 or more", static_cast<double>(value));
  }
  require(c.heads % c.kv_heads == 0, "kv_heads", "a divisor of heads (" + std::to_string(c.heads) + ")",
          static_cast<double>(c.kv_heads));
  require(c.head_dim % 2 == 0, "head_dim", "an even number (rotary embedding)",
          static_cast<double>(c.head_dim));
  require(c.norm_eps > 0, "norm_eps", "a number above 0", c.norm_eps);
  require(c.rope_theta > 0, "rope_theta", "a number above 0", c.rope_theta);
  rope_frequencies(c.head_dim, c.rope_theta, c.rope_scaling);  // refuses what does not fit
  require(c.init_std > 0, "init_std", "a number above 0", c.init_std);
  require(c.dropout >= 0 && c.dropout < 1, "dropout", "0 or more, below 1", c.dropout);
  if (c.moh.router == RouterKind::kNone) return;
  check_per_layer("moh.shared", c.moh.shared, c.layers);
  check_per_layer("moh.routed", c.moh.top_k, c.layers);
  if (!c.moh.shared_heads.empty()) check_per_layer("moh.shared_heads", c.moh.shared_heads, c.layers);
  for (std::int64_t layer = 0; layer < c.layers; ++layer) {
    const HeadRoutingOptions routing = routing_of(c, layer);
    router_widths(routing.router);
    if (c.moh.shared_heads.empty()) continue;
    const auto listed = static_cast<std::int64_t>(routing.shared_heads.size());
    require(listed == routing.router.shared, "moh.shared_heads",
            "as many heads as are shared (" + std::to_string(routing.router.shared) + ") in layer " +
                std::to_string(layer),
            static_cast<double>(listed));
    head_order(c.heads, routing.shared_heads);
  }
}

HeadRoutingOptions routing_of(const LlamaConfig& c, std::int64_t layer) {
  if (c.moh.router == RouterKind::kNone) return {RouterKind::kNone, {c.heads, c.heads, 0}};
  const GateScaling scaling = c.moh.router == RouterKind::kQueryNorm ? GateScaling::kBinary : c.moh.scaling;
  RouterOptions router{c.heads, per_layer(c.moh.shared, layer), per_layer(c.moh.top_k, layer), scaling,
                       c.moh.two_stage};
  router.balance_loss = c.moh.balance_loss;
  return {c.moh.router, router, c.moh.straight_through,
          c.moh.shared_heads.empty() ? std::vector<std::int64_t>() : per_layer(c.moh.shared_heads, layer),
          c.moh.router_precision};
}

double activated_heads(const LlamaConfig& c, bool training) {
  std::int64_t active = 0;
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    active += computed_heads(routing_of(c, layer), training);
  return static_cast<double>(active) / static_cast<double>(c.layers * c.heads);
}

}  // namespace moh
