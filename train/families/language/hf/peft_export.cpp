#include "train/families/language/hf/peft_export.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "train/base/io/durable_file.h"
#include "train/families/language/hf/hf_export.h"

namespace moh {

namespace {

constexpr std::string_view kFormat = "--format peft";

/// Modules that are trained as a whole, by the ends of their names, with which PEFT finds them.
std::vector<std::string> whole_modules(const LlamaConfig& model) {
  std::vector<std::string> modules;
  if (model.moh.router->name == routers::kLearned->name) modules = {"wg", "wg_0", "wg_1"};
  for (const std::string& part : model.lora.full) {
    if (part == "norms")
      modules.emplace_back("norm");
    else
      modules.insert(modules.end(), {"embed_tokens", "lm_head"});
  }
  return modules;
}

void require_expressible(const LlamaConfig& model) {
  const auto refuse = [](std::string_view key, std::string_view expected, std::string_view found) {
    throw ConfigError(error_message(kFormat, key, expected, found, "--format hf writes the merged model"));
  };
  if (!model.lora.used()) refuse("model.lora.rank", "a model with adapters", "0");
  if (model.attention_gate != AttentionGate::kNone)
    refuse("model.attention_gate", "none, as gates scale the base model's output projections", "gates");
  if (model.moh.balance_bias > 0)
    refuse("model.moh.balance_bias", "0, as a bias is no module of PyTorch that PEFT could save",
           number_text(model.moh.balance_bias));
  if (model.tied_embeddings && trains(model.lora, "lm_head.weight"))
    refuse("model.lora.full", "no embeddings with tied ones, which PEFT would separate", "embeddings");
}

}  // namespace

std::optional<std::string> peft_name(std::string_view parameter, const LlamaConfig& model) {
  if (!trains(model.lora, parameter)) return std::nullopt;
  return "base_model.model." + std::string(parameter);
}

void write_peft_files(const std::filesystem::path& folder, const LlamaConfig& model, std::string_view base,
                      std::string_view dtype) {
  require_expressible(model);
  nlohmann::ordered_json json;
  json["peft_type"] = "LORA";
  json["task_type"] = "CAUSAL_LM";
  json["base_model_name_or_path"] = base.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(base);
  json["r"] = model.lora.rank;
  json["lora_alpha"] = model.lora.alpha;
  json["target_modules"] = model.lora.targets;
  const std::vector<std::string> whole = whole_modules(model);
  json["modules_to_save"] = whole.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(whole);
  json["lora_dropout"] = 0.0;
  json["bias"] = "none";
  json["fan_in_fan_out"] = false;
  json["init_lora_weights"] = true;
  json["use_rslora"] = false;
  json["use_dora"] = false;
  json["inference_mode"] = true;
  write_file_durably(folder / "adapter_config.json", json.dump(2) + "\n");
  if (has_moh_code(model)) write_hf_model_files(folder, model, dtype);
}

}  // namespace moh
