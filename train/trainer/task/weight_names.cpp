#include "train/trainer/task/weight_names.h"

#include "core/error.h"
#include "train/weights/weight_writer.h"

namespace moh {

namespace {

[[noreturn]] void refuse(const std::filesystem::path& where, std::string_view found) {
  throw ConfigError(error_message(where.string(), "format hf", "a model that Hugging Face's libraries know",
                                  found, "convert to safetensors or to a checkpoint of moh"));
}

}  // namespace

std::unique_ptr<FamilyConfig> WeightNames::read_config(const std::filesystem::path& config_json) const {
  refuse(config_json, "another");
}

void WeightNames::write_files(const std::filesystem::path& folder, const FamilyConfig& config,
                              const ModelLocation&, std::span<const WeightInfo>) const {
  refuse(folder, "a model of task: " + std::string(config.task()));
}

void WeightNames::write_adapter_files(const std::filesystem::path& folder, const FamilyConfig& config,
                                      std::string_view, const ModelLocation&,
                                      std::span<const WeightInfo>) const {
  throw ConfigError(error_message(folder.string(), "format peft", "a language model with model.lora",
                                  "a model of task: " + std::string(config.task())));
}

std::vector<std::pair<std::string, std::string>> WeightNames::carried_files(
    const ModelLocation& source) const {
  return read_carried(companions(source));
}

std::string WeightNames::describe(const FamilyConfig& config) const {
  return std::string(config.task());
}

}  // namespace moh
