#include "train/families/language/hf/hf_export.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/families/language/hf/hf_window.h"
#include "train/families/language/hf/python_files.h"
#include "train/trainer/config/enum_names.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson optional_token(const std::optional<std::int64_t>& id) {
  return id ? OrderedJson(*id) : OrderedJson();
}

OrderedJson end_tokens(const std::vector<std::int64_t>& ids) {
  if (ids.empty()) return {};
  return ids.size() == 1 ? OrderedJson(ids[0]) : OrderedJson(ids);
}

void add_tokens(const HfTokenIds& tokens, OrderedJson& json) {
  json["bos_token_id"] = optional_token(tokens.bos);
  json["eos_token_id"] = end_tokens(tokens.eos);
  json["pad_token_id"] = optional_token(tokens.pad);
}

OrderedJson yarn_json(const RopeScaling& scaling) {
  OrderedJson json = {{"rope_type", "yarn"},
                      {"factor", scaling.factor},
                      {"original_max_position_embeddings", scaling.original_positions},
                      {"beta_fast", scaling.beta_fast},
                      {"beta_slow", scaling.beta_slow}};
  if (scaling.attention_factor > 0) json["attention_factor"] = scaling.attention_factor;
  if (!scaling.truncate) json["truncate"] = false;
  return json;
}

OrderedJson scaling_json(const RopeScaling& scaling) {
  switch (scaling.kind) {
    case RopeScalingKind::kNone:
      return OrderedJson::object();
    case RopeScalingKind::kLinear:
      return {{"rope_type", "linear"}, {"factor", scaling.factor}};
    case RopeScalingKind::kLlama3:
      return {{"rope_type", "llama3"},
              {"factor", scaling.factor},
              {"low_freq_factor", scaling.low_freq_factor},
              {"high_freq_factor", scaling.high_freq_factor},
              {"original_max_position_embeddings", scaling.original_positions}};
    case RopeScalingKind::kYarn:
      return yarn_json(scaling);
    case RopeScalingKind::kDynamic:
      return {{"rope_type", "dynamic"}, {"factor", scaling.factor}};
  }
  fail_check(__FILE__, __LINE__, "kind", "unknown RopeScalingKind");
}

/// Keys of transformers 4, then those of transformers 5, which prefers the latter if both are present.
void add_rope(const LlamaConfig& model, OrderedJson& json) {
  OrderedJson scaling = scaling_json(model.rope_scaling);
  json["rope_theta"] = model.rope_theta;
  json["rope_scaling"] = scaling.empty() ? OrderedJson() : scaling;
  if (scaling.empty()) scaling["rope_type"] = "default";
  scaling["rope_theta"] = model.rope_theta;
  json["rope_parameters"] = std::move(scaling);
}

OrderedJson per_layer_json(const PerLayer& counts) {
  return counts.each.empty() ? OrderedJson(counts.every) : OrderedJson(counts.each);
}

PerLayer active_heads(const LlamaConfig& model) {
  const MohConfig& moh = model.moh;
  if (moh.num_shared.each.empty() && moh.top_k.each.empty())
    return moh.num_shared.every + routing_of(model, 0).router.top_k;
  std::vector<std::int64_t> active;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    active.push_back(moh.num_shared.at(layer) + routing_of(model, layer).router.top_k);
  return active;
}

/// The shared heads of each layer, ascending.
OrderedJson shared_heads_json(const LlamaConfig& model) {
  OrderedJson lists = OrderedJson::array();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    std::vector<std::int64_t> heads = model.moh.shared_heads.at(layer);
    std::ranges::sort(heads);
    lists.push_back(std::move(heads));
  }
  return lists;
}

/// The classes of transformers that compute what moh does, and the form that brings its own code.
enum class HfForm { kLlama, kMistral, kQwen2, kQwen3, kMoh };

struct HfNames {
  std::string_view model_type, architecture;
};
constexpr HfNames kHfNames[] = {{"llama", "LlamaForCausalLM"},
                                {"mistral", "MistralForCausalLM"},
                                {"qwen2", "Qwen2ForCausalLM"},
                                {"qwen3", "Qwen3ForCausalLM"},
                                {"moh_llama", "MohLlamaForCausalLM"}};  // in the order of HfForm

/// The form of a model whose projections all have biases, or none has: with a window a Mistral, where every
/// layer has it and no projection a bias.
HfForm plain_form(const LlamaConfig& model, const HfWindow& window) {
  if (window.size == 0) return HfForm::kLlama;
  const bool has_bias = model.qkv_bias || model.mlp_bias;
  return window.first_layer == 0 && !has_bias ? HfForm::kMistral : HfForm::kMoh;
}

/// A dense model that no class of transformers computes is stored as a MoH model in which every head is
/// shared. Their LlamaConfig refuses a hidden size that is no multiple of the number of heads, whatever
/// head_dim is.
HfForm form_of(const LlamaConfig& model) {
  if (model.moh.router->routes() || model.attention_gate != AttentionGate::kNone) return HfForm::kMoh;
  const bool same_biases = model.qkv_bias == model.o_bias;
  const std::optional<HfWindow> window = as_hf_window(model);
  if (!window) return HfForm::kMoh;
  if (model.qk_norm) return same_biases && !model.mlp_bias ? HfForm::kQwen3 : HfForm::kMoh;
  if (model.hidden % model.heads != 0) return HfForm::kMoh;
  if (same_biases) return plain_form(model, *window);
  return model.qkv_bias && !model.mlp_bias ? HfForm::kQwen2 : HfForm::kMoh;
}

void add_routing(const LlamaConfig& model, OrderedJson& json) {
  const MohConfig& moh = model.moh;
  json["moh_router"] = name_of(moh.router);
  if (moh.routing != routings::kHeads) json["moh_routing"] = name_of(moh.routing);
  if (!moh.router->routes()) {
    json["moh_shared_heads"] = json["moh_active_heads"] = model.heads;
    return;
  }
  json["moh_shared_heads"] = per_layer_json(moh.num_shared);
  if (moh.shared_heads.listed()) json["moh_shared_heads_index"] = shared_heads_json(model);
  json["moh_active_heads"] = per_layer_json(active_heads(model));
  json["moh_gate_scaling"] = name_of(moh.gate_scaling);
  json["moh_two_stage"] = moh.two_stage;
  json["moh_straight_through"] = name_of(moh.straight_through);
  json["moh_balance_loss"] = name_of(moh.balance_loss);
  json["moh_balance_weight"] = moh.balance_weight;
  if (moh.balance_bias > 0) json["moh_balance_bias"] = moh.balance_bias;
  if (moh.router_precision == RouterPrecision::kFloat32) json[std::string(kRouterDtype)] = kRouterFloat32;
}

void add_class(HfForm form, OrderedJson& json) {
  const HfNames& names = kHfNames[static_cast<std::size_t>(form)];
  json["architectures"] = {names.architecture};
  json["model_type"] = names.model_type;
  if (form != HfForm::kMoh) return;
  json["auto_map"] = {{"AutoConfig", "configuration_moh_llama.MohLlamaConfig"},
                      {"AutoModelForCausalLM", "modeling_moh_llama.MohLlamaForCausalLM"}};
}

/// Keys of biases and norms that the class has; the rest follows from the class.
void add_biases(const LlamaConfig& model, HfForm form, OrderedJson& json) {
  if (form == HfForm::kLlama || form == HfForm::kQwen3) json["attention_bias"] = model.o_bias;
  if (form == HfForm::kLlama || form == HfForm::kMoh) json["mlp_bias"] = model.mlp_bias;
  if (form != HfForm::kMoh) return;
  json["qkv_bias"] = model.qkv_bias;
  json["o_bias"] = model.o_bias;
  json["qk_norm"] = model.qk_norm;
  if (model.attention_gate != AttentionGate::kNone)
    json["moh_attention_gate"] = name_of(model.attention_gate);
}

/// The windows of Qwen 2 and 3: in layers from max_window_layers on, which newer transformers list one by
/// one.
void add_window_layers(const LlamaConfig& model, const HfWindow& window, OrderedJson& json) {
  json["use_sliding_window"] = window.size > 0;
  if (window.size == 0) return;
  json["sliding_window"] = window.size;
  json["max_window_layers"] = window.first_layer;
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    json["layer_types"].push_back(layer < window.first_layer ? kFullLayer : kWindowLayer);
}

void add_windows(const LlamaConfig& model, HfForm form, OrderedJson& json) {
  const std::optional<HfWindow> window = as_hf_window(model);
  if (form == HfForm::kQwen2 || form == HfForm::kQwen3) add_window_layers(model, *window, json);
  if (form == HfForm::kMistral) json["sliding_window"] = window->size;
  const bool has_windows = model.sliding_window != PerLayer();
  if (form == HfForm::kMoh && has_windows) json["sliding_windows"] = per_layer_json(model.sliding_window);
}

void add_sizes(const LlamaConfig& model, OrderedJson& json) {
  json["vocab_size"] = model.vocab_size;
  json["hidden_size"] = model.hidden;
  json["intermediate_size"] = model.intermediate;
  json["num_hidden_layers"] = model.layers;
  json["num_attention_heads"] = model.heads;
  json["num_key_value_heads"] = model.kv_heads;
  json["head_dim"] = model.head_dim;
  // transformers stretches from this length on.
  const bool is_dynamic = model.rope_scaling.kind == RopeScalingKind::kDynamic;
  json["max_position_embeddings"] = is_dynamic ? model.rope_scaling.original_positions : model.max_positions;
}

OrderedJson config_json(const LlamaConfig& model, std::string_view dtype, const HfTokenIds& tokens) {
  if (model.moh.routed != RoutedRows::kQueries)
    throw ConfigError(error_message("export", "model.moh.routed",
                                    "queries, as the exported code has keys and values of all tokens",
                                    std::string(name_of(model.moh.routed))));
  if (model.switch_head.used())
    throw ConfigError(error_message("export", "model.switch_head.experts",
                                    "0, as the exported code has one projection of each head",
                                    std::to_string(model.switch_head.experts), "write safetensors instead"));
  const HfForm form = form_of(model);
  OrderedJson json;
  add_class(form, json);
  add_sizes(model, json);
  json["rms_norm_eps"] = model.norm_eps;
  add_rope(model, json);
  json["hidden_act"] = "silu";
  add_biases(model, form, json);
  add_windows(model, form, json);
  json["attention_dropout"] = 0.0;
  json["tie_word_embeddings"] = model.tied_embeddings;
  json["initializer_range"] = model.init_std;
  json["use_cache"] = true;
  add_tokens(tokens, json);
  if (form == HfForm::kMoh) add_routing(model, json);
  json["dtype"] = dtype;
  json["torch_dtype"] = dtype;  // the same in transformers before 4.56
  return json;
}

template <class T>
void require_known(std::string_view key, Registered<T> type, std::span<const Registered<T>> known) {
  if (std::ranges::count(known, type) > 0) return;
  std::string names;
  for (const Registered<T> each : known) names.append(names.empty() ? "" : ", ").append(each->name);
  throw ConfigError(error_message(key, "", "one of " + names + " for transformers", std::string(type->name),
                                  "modeling_moh_llama.py has no other; write safetensors instead"));
}

void write_json(const std::filesystem::path& path, const OrderedJson& json) {
  write_file_durably(path, json.dump(2) + "\n");
}

}  // namespace

bool has_moh_code(const LlamaConfig& model) {
  return form_of(model) == HfForm::kMoh;
}

void write_hf_model_files(const std::filesystem::path& folder, const LlamaConfig& model,
                          std::string_view dtype, const HfTokenIds& tokens) {
  require_known<RouterType>("model.moh.router", model.moh.router, kHfRouters);
  require_known<RoutingRule>("model.moh.routing", model.moh.routing, kHfRoutings);
  if (has_moh_code(model)) {
    write_file_durably(folder / "configuration_moh_llama.py", configuration_moh_llama_py());
    write_file_durably(folder / "modeling_moh_llama.py", modeling_moh_llama_py());
  }
  write_json(folder / "config.json", config_json(spelt_out(model), dtype, tokens));
}

std::string generation_config_text(const HfTokenIds& tokens) {
  OrderedJson json = OrderedJson::object();
  add_tokens(tokens, json);
  return json.dump(2) + "\n";
}

void write_generation_config(const std::filesystem::path& folder, const HfTokenIds& tokens) {
  write_file_durably(folder / kGenerationConfig, generation_config_text(tokens));
}

}  // namespace moh
