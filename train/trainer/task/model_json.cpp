#include "train/trainer/task/model_json.h"

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "core/error.h"
#include "train/config/write_fields.h"
#include "train/trainer/config/load_run_config.h"

namespace moh {

namespace {

using Json = nlohmann::ordered_json;

/// Numbers, truth values and lists are written in YAML as in JSON; the rest is text.
Json value_of(const config::Field& field) {
  std::string text = config::value_yaml(field);
  if (std::holds_alternative<std::string*>(field.target)) return *std::get<std::string*>(field.target);
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? Json(std::move(text)) : value;
}

Json object_of(const config::Section& section) {
  Json object = Json::object();
  for (const config::Field& field : section.fields()) {
    if (field.name != "preset" && field.name != "recompute")
      object[std::string(field.name)] = value_of(field);
  }
  for (const config::Section& child : section.sections())
    object[std::string(child.name())] = object_of(child);
  return object;
}

}  // namespace

std::string model_json(const FamilyConfig& config) {
  const std::unique_ptr<FamilyConfig> described = config.clone();
  config::Section root("", "");
  described->describe(root);
  return object_of(root.section_named("model")).dump();
}

std::unique_ptr<FamilyConfig> read_model_json(const std::filesystem::path& file, const ConfigJson& json,
                                              const FamilyConfig& defaults) {
  const FamilyConfig* const families[] = {&defaults};
  std::string text = "{\"task\": " + Json(std::string(defaults.task())).dump() +
                     ", \"model\": " + json.object_text("model") + "}";
  return RunFile::of_text(file.string(), std::move(text), families).finish(ConfigUse::kModel).family->clone();
}

void require_python_router(const std::filesystem::path& folder, const MohConfig& moh) {
  std::string names;
  for (const RouterKey known : {routers::kNone, routers::kLearned, routers::kCondition, routers::kStatic}) {
    if (moh.router == known) return;
    names.append(names.empty() ? "" : ", ").append(known->name);
  }
  throw ConfigError(error_message(folder.string(), "model.moh.router", "one of " + names + " for format hf",
                                  std::string(moh.router->name),
                                  "moh_attention.py has no other; convert to safetensors instead"));
}

}  // namespace moh
