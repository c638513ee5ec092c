#include "train/families/language/hf/hf_config.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/find_preset.h"
#include "models/llm/llama_presets.h"
#include "train/base/io/printable.h"
#include "train/config/fields.h"
#include "train/families/language/hf/hf_rope.h"
#include "train/families/language/hf/hf_unknown_models.h"
#include "train/families/language/hf/hf_window.h"
#include "train/trainer/config/enum_names.h"
#include "train/weights/hf/config_json.h"

namespace moh {

namespace {

using config::kMaxHeads;
using config::kMaxLayers;
using config::kMaxLength;
using config::kMaxVocab;
using config::kMaxWidth;

std::string list_of(std::span<const std::string_view> names) {
  std::string text;
  for (std::string_view name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

/// The enumerator of that name in YAML.
template <class E>
E named(const ConfigJson& json, std::string_view key, E otherwise) {
  if (!json.has(key)) return otherwise;
  const std::string text = json.text(key);
  const auto names = names_of(E{});
  const auto found = std::ranges::find(names, text);
  if (found == names.end()) json.unsupported(key, "one of " + list_of(names), printable(text));
  return static_cast<E>(found - names.begin());
}

/// The registered type of that name, one of `known`.
template <class T>
Registered<T> named(const ConfigJson& json, std::string_view key, Registered<T> otherwise,
                    std::span<const Registered<T>> known) {
  if (!json.has(key)) return otherwise;
  const std::string text = json.text(key);
  std::string names;
  for (const Registered<T> type : known) {
    if (type->name == text) return type;
    names.append(names.empty() ? "" : ", ").append(type->name);
  }
  json.unsupported(key, "one of " + names, printable(text));
}

// ---- What the model is ----

enum class ModelType { kLlama, kMistral, kQwen2, kQwen3, kMoh };

constexpr std::string_view kLlamaNames[] = {"LlamaForCausalLM", "LLaMAForCausalLM"};  // the second in 2023
constexpr std::string_view kMistralNames[] = {"MistralForCausalLM"};
constexpr std::string_view kQwen2Names[] = {"Qwen2ForCausalLM"}, kQwen3Names[] = {"Qwen3ForCausalLM"};
constexpr std::string_view kMohNames[] = {"MohLlamaForCausalLM"};

/// In the order of ModelType.
constexpr std::pair<std::string_view, std::span<const std::string_view>> kModelTypes[] = {
    {"llama", kLlamaNames},
    {"mistral", kMistralNames},
    {"qwen2", kQwen2Names},
    {"qwen3", kQwen3Names},
    {"moh_llama", kMohNames}};

/// Why models of these types compute something else than a LLaMA.
constexpr std::pair<std::string_view, std::string_view> kUnlikeLlama[] = {
    {"gemma", "its norms add 1 to their weights, its embedding is scaled, its MLP has GELU"},
    {"gemma2", "its norms add 1 to their weights, its logits are capped, some layers have windows"},
    {"gemma3_text",
     "its norms add 1 to their weights, queries and keys are normalised, some layers have windows"},
    {"granite", "its embedding, attention, residuals and logits are scaled"},
    {"mixtral", "its MLPs are mixtures of experts"},
    {"phi3", "its projections lie in joined matrices"},
    {"qwen2_moe", "its MLPs are mixtures of experts"},
    {"qwen3_moe", "its MLPs are mixtures of experts"},
    {"qwen3_next", "most of its layers have linear attention"},
};

ModelType model_type(const ConfigJson& json) {
  const std::string type = json.text("model_type");
  const auto known = std::ranges::find(kModelTypes, type, [](const auto& each) { return each.first; });
  if (known == std::ranges::end(kModelTypes)) {
    const auto other = std::ranges::find(kUnlikeLlama, type, [](const auto& each) { return each.first; });
    json.unsupported("model_type", "llama, mistral, qwen2, qwen3 or moh_llama", printable(type),
                     other == std::ranges::end(kUnlikeLlama) ? "" : other->second);
  }
  const std::span<const std::string_view> names = known->second;
  if (json.has("architectures")) {
    const std::vector<std::string> found = json.texts("architectures");
    if (std::ranges::none_of(found, [&](const std::string& name) { return std::ranges::count(names, name); }))
      json.unsupported("architectures", names[0], json.shown("architectures"));
  }
  return static_cast<ModelType>(known - std::ranges::begin(kModelTypes));
}

HfWindows windows_of(ModelType type) {
  switch (type) {
    case ModelType::kLlama:
      return HfWindows::kNone;
    case ModelType::kMistral:
      return HfWindows::kAll;
    case ModelType::kQwen2:
    case ModelType::kQwen3:
      return HfWindows::kLayers;
    case ModelType::kMoh:
      return HfWindows::kMoh;
  }
  fail_check(__FILE__, __LINE__, "type", "unknown ModelType");
}

/// Biases and norms inside the layers. transformers' Mistral and Qwen 2 have no keys for them.
void read_biases(const ConfigJson& json, ModelType type, LlamaConfig& model) {
  const bool attention = json.truth_or("attention_bias", false), mlp = json.truth_or("mlp_bias", false);
  const bool is_llama = type == ModelType::kLlama || type == ModelType::kMoh;
  constexpr std::string_view kNone = "false or no such key for this model_type";
  if (attention && !is_llama && type != ModelType::kQwen3) json.unsupported("attention_bias", kNone, "true");
  if (mlp && !is_llama) json.unsupported("mlp_bias", kNone, "true");
  model.qkv_bias = attention || type == ModelType::kQwen2;
  model.o_bias = attention;
  model.mlp_bias = mlp;
  model.qk_norm = type == ModelType::kQwen3;
  if (type != ModelType::kMoh) return;
  model.qkv_bias = json.truth_or("qkv_bias", attention);
  model.o_bias = json.truth_or("o_bias", attention);
  model.qk_norm = json.truth_or("qk_norm", false);
  model.attention_gate = named(json, "moh_attention_gate", AttentionGate::kNone);
}

// ---- Routing ----

PerLayer per_layer(const ConfigJson& json, std::string_view key, const LlamaConfig& model) {
  const auto most = static_cast<double>(model.heads);
  if (!json.is_list(key)) return json.integer(key, 0, most);
  PerLayer counts = json.integers(key, 0, most);
  if (static_cast<std::int64_t>(counts.each.size()) != model.layers)
    json.damaged(key, std::to_string(model.layers) + " counts, one per layer",
                 std::to_string(counts.each.size()));
  return counts;
}

/// top_k of each layer: active heads minus shared heads.
PerLayer routed_top_k(const ConfigJson& json, const PerLayer& shared, const PerLayer& active,
                      const LlamaConfig& model) {
  std::vector<std::int64_t> top_k;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::int64_t count = active.at(layer) - shared.at(layer);
    if (count < 0)
      json.damaged("moh_active_heads", "at least moh_shared_heads", json.shown("moh_active_heads"));
    top_k.push_back(count);
  }
  const bool same = std::ranges::all_of(top_k, [&](std::int64_t n) { return n == top_k[0]; });
  return same ? PerLayer(top_k[0]) : PerLayer(std::move(top_k));
}

/// Whether these are the first `shared` heads of every layer, in any order.
bool are_first_heads(std::vector<std::vector<std::int64_t>> lists, const PerLayer& shared) {
  for (std::size_t layer = 0; layer < lists.size(); ++layer) {
    std::vector<std::int64_t>&heads = lists[layer], first(static_cast<std::size_t>(shared.at(layer)));
    std::iota(first.begin(), first.end(), 0);
    std::ranges::sort(heads);
    if (heads != first) return false;
  }
  return true;
}

/// The shared heads. Consistency with the counts is checked with the rest of the model.
HeadSet shared_heads(const ConfigJson& json, const PerLayer& shared, const LlamaConfig& model) {
  constexpr std::string_view kKey = "moh_shared_heads_index";
  if (!json.has(kKey)) return {};
  const auto lists = json.lists_of_integers(kKey, 0, static_cast<double>(model.heads - 1));
  if (static_cast<std::int64_t>(lists.size()) != model.layers)
    json.damaged(kKey, std::to_string(model.layers) + " lists, one per layer", std::to_string(lists.size()));
  if (are_first_heads(lists, shared)) return {};
  const bool same = std::ranges::all_of(lists, [&](const auto& list) { return list == lists[0]; });
  // An empty list for all layers would mean that no heads are listed.
  if (same && !lists[0].empty()) return {.every = lists[0]};
  return {.each = lists};
}

void check_routing_keys(const ConfigJson& json) {
  constexpr std::string_view kKnown[] = {
      "moh_router",       "moh_shared_heads",     "moh_active_heads",   "moh_gate_scaling",
      "moh_two_stage",    "moh_straight_through", "moh_balance_weight", "moh_shared_heads_index",
      "moh_balance_loss", "moh_routing",          "moh_router_dtype",   "moh_attention_gate",
      "moh_balance_bias"};
  for (const std::string& key : json.keys()) {
    if (key.starts_with("moh_") && std::ranges::count(kKnown, key) == 0)
      json.unsupported(key, "no such key", json.shown(key), "a newer moh may read it");
  }
}

/// A dense model stored as a MoH model in which every head is shared.
bool is_dense(const ConfigJson& json, RouterKey router, const LlamaConfig& model) {
  if (router->routes()) return false;
  if (!json.has("moh_router") || per_layer(json, "moh_shared_heads", model) != PerLayer(model.heads)) {
    json.damaged("moh_router", "learned or query_norm, unless every head is shared",
                 json.shown("moh_router"));
  }
  return true;
}

/// Routers of float32 in a model of another precision; without the key they are of the model's.
RouterPrecision router_precision(const ConfigJson& json) {
  if (!json.has(kRouterDtype)) return RouterPrecision::kSame;
  if (json.text(kRouterDtype) != kRouterFloat32)
    json.unsupported(kRouterDtype, kRouterFloat32, json.shown(kRouterDtype));
  return RouterPrecision::kFloat32;
}

MohConfig read_routing(const ConfigJson& json, const LlamaConfig& model) {
  check_routing_keys(json);
  MohConfig moh;
  moh.router = named<RouterType>(json, "moh_router", routers::kNone, kHfRouters);
  if (is_dense(json, moh.router, model)) return {};
  moh.routing = named<RoutingRule>(json, "moh_routing", moh.routing, kHfRoutings);
  moh.num_shared = per_layer(json, "moh_shared_heads", model);
  moh.top_k = routed_top_k(json, moh.num_shared, per_layer(json, "moh_active_heads", model), model);
  moh.shared_heads = shared_heads(json, moh.num_shared, model);
  moh.gate_scaling = named(json, "moh_gate_scaling", moh.gate_scaling);
  moh.two_stage = json.truth_or("moh_two_stage", moh.two_stage);
  moh.straight_through = named(json, "moh_straight_through", moh.straight_through);
  const bool paper = !moh.router->binary_gates && moh.gate_scaling == GateScaling::kPaper;
  moh.balance_loss = named(json, "moh_balance_loss", paper ? BalanceLoss::kPaper : BalanceLoss::kCode);
  moh.router_precision = router_precision(json);
  moh.balance_weight = json.number_or("moh_balance_weight", moh.balance_weight);
  if (!(moh.balance_weight >= 0))
    json.damaged("moh_balance_weight", "0 or more", json.shown("moh_balance_weight"));
  moh.balance_bias = json.number_or("moh_balance_bias", moh.balance_bias);
  if (!(moh.balance_bias >= 0 && moh.balance_bias <= 1))
    json.damaged("moh_balance_bias", "0 to 1", json.shown("moh_balance_bias"));
  return moh;
}

/// The routing of MoH-LLaMA3-8B as released. Its config.json is that of a LLaMA with custom code, and the
/// code contains the routing. It is recognised by its vocabulary size, which no other LLaMA has.
MohConfig released_routing(const ConfigJson& json, const LlamaConfig& model) {
  constexpr std::string_view kReleased = "moh_llama3_8b";
  const LlamaConfig& released = find_preset(llama_presets(), kReleased)->config;
  if (model.vocab_size != released.vocab_size || model.layers != released.layers ||
      model.heads != released.heads || model.hidden != released.hidden) {
    json.unsupported("auto_map", "none (the model brings code of its own)", json.shown("auto_map"),
                     "if that code computes a plain LLaMA, remove the key");
  }
  return released.moh;
}

// ---- All of it ----

/// The one of two keys that is present; the first is the current name.
std::int64_t positions_of(const ConfigJson& json, ModelType type) {
  for (const char* key : {"max_position_embeddings", "max_sequence_length"}) {
    if (json.has(key)) return json.integer(key, 1, kMaxLength);
  }
  const bool is_qwen = type == ModelType::kQwen2 || type == ModelType::kQwen3;
  return type == ModelType::kMistral ? 4096 * 32 : is_qwen ? 32768 : 2048;
}

std::int64_t kv_heads_of(const ConfigJson& json, ModelType type, std::int64_t heads) {
  constexpr std::string_view kKey = "num_key_value_heads";
  if (json.has(kKey)) return json.integer(kKey, 1, kMaxWidth);
  if (json.is_null(kKey) || type == ModelType::kLlama || type == ModelType::kMoh) return heads;
  return type == ModelType::kMistral ? 8 : 32;  // transformers' defaults
}

std::int64_t head_dim_of(const ConfigJson& json, ModelType type, const LlamaConfig& model) {
  constexpr std::string_view kKey = "head_dim";
  if (json.has(kKey)) return json.integer(kKey, 1, kMaxWidth);
  if (type == ModelType::kQwen3 && !json.is_null(kKey)) return 128;  // transformers' default
  if (model.hidden % model.heads != 0)
    json.damaged("num_attention_heads", "a divisor of hidden_size (" + std::to_string(model.hidden) + ")",
                 std::to_string(model.heads));
  return model.hidden / model.heads;
}

LlamaConfig read_sizes(const ConfigJson& json, ModelType type) {
  LlamaConfig model;
  model.vocab_size = json.integer("vocab_size", 2, kMaxVocab);
  model.layers = json.integer("num_hidden_layers", 1, kMaxLayers);
  model.hidden = json.integer("hidden_size", 1, kMaxWidth);
  model.intermediate = json.integer("intermediate_size", 1, kMaxWidth);
  model.heads = json.integer("num_attention_heads", 1, kMaxHeads);
  model.kv_heads = kv_heads_of(json, type, model.heads);
  model.head_dim = head_dim_of(json, type, model);
  model.max_positions = positions_of(json, type);
  return model;
}

/// The context that a factor of dynamic scaling is meant for.
std::int64_t stretched(std::int64_t positions, double factor) {
  return static_cast<std::int64_t>(std::min(static_cast<double>(positions) * factor, kMaxLength));
}

LlamaConfig read_model(const ConfigJson& json) {
  const ModelType type = model_type(json);
  refuse_unknown_models(json);
  LlamaConfig model = read_sizes(json, type);
  model.sliding_window = read_hf_windows(json, windows_of(type), model);
  read_biases(json, type, model);
  model.norm_eps = json.has("rms_norm_eps") ? json.positive("rms_norm_eps") : 1e-6;
  const HfRope rope = read_hf_rope(json, model.max_positions);
  model.rope_theta = rope.theta;
  model.rope_scaling = rope.scaling;
  if (rope.scaling.kind == RopeScalingKind::kDynamic)
    model.max_positions = stretched(model.max_positions, rope.scaling.factor);
  model.tied_embeddings = json.truth_or("tie_word_embeddings", false);
  if (json.has("initializer_range")) model.init_std = json.positive("initializer_range");
  if (type == ModelType::kMoh) {
    model.moh = read_routing(json, model);
  } else if (json.has("auto_map")) {
    model.moh = released_routing(json, model);
  }
  return model;
}

}  // namespace

bool is_language_model_type(std::string_view type) {
  const auto is_type = [&](const auto& each) { return each.first == type; };
  return std::ranges::any_of(kModelTypes, is_type) || std::ranges::any_of(kUnlikeLlama, is_type);
}

void require_supported(const LlamaConfig& model, const std::filesystem::path& described_by) {
  ConfigFaults faults;
  check(model, faults);
  try {
    faults.throw_first("llama");
  } catch (const ValueError& error) {
    throw ConfigError(described_by.string() + ": " + error.what());
  }
}

LlamaConfig read_hf_config(const std::filesystem::path& config_json) {
  const ConfigJson json(config_json);
  LlamaConfig model = read_model(json);
  require_supported(model, config_json);
  return model;
}

HfTokenIds read_hf_token_ids(const std::filesystem::path& config_json) {
  const ConfigJson json(config_json);
  // Early files have -1 for a token that does not exist.
  const auto token = [&](std::string_view key) -> std::optional<std::int64_t> {
    if (!json.has(key)) return std::nullopt;
    const std::int64_t id = json.integer(key, -1, kMaxVocab);
    return id < 0 ? std::nullopt : std::optional(id);
  };
  HfTokenIds ids{token("bos_token_id"), token("pad_token_id"), {}};
  if (json.is_list("eos_token_id")) {
    ids.eos = json.integers("eos_token_id", 0, kMaxVocab);
  } else if (const auto id = token("eos_token_id")) {
    ids.eos = {*id};
  }
  return ids;
}

}  // namespace moh
