#include "train/apps/cli/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "train/trainer/task/model_config.h"

namespace moh::cli {

namespace {

bool is_setting(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  const auto belongs_to_key = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  std::error_code ignored;
  return std::ranges::all_of(text.substr(0, equals), belongs_to_key) &&
         !std::filesystem::exists(text, ignored);
}

}  // namespace

Commands add_group(const Commands& commands, const char* name, const char* description) {
  CLI::App* const group = commands.parser.add_subcommand(name, description);
  group->require_subcommand(1);
  return {*group, commands.action};
}

CLI::App& add_parser(const Commands& commands, const char* name, const char* description, Action action) {
  CLI::App* const command = commands.parser.add_subcommand(name, description);
  command->callback([command, &chosen = commands.action, action = std::move(action)] {
    if (command->get_subcommands().empty()) chosen = action;
  });
  return *command;
}

void add_run_arguments(CLI::App& command, RunArgs& args, bool required) {
  command.add_option("config", args.config, "Configuration file (YAML)")
      ->type_name("CONFIG.yaml")
      ->required(required);
  command.add_option("overrides", args.overrides, "Settings that override those of the file")
      ->type_name("key.path=value")
      ->default_str("");
}

RunFile open_run(const RunArgs& args, const Families& families) {
  RunFile file(args.config, args.overrides, families.configs());
  log_notes(file);
  return file;
}

RunConfig read_run(const RunArgs& args, const Families& families, ConfigUse use) {
  RunFile file = open_run(args, families);
  return finish_run(file, families, use);
}

void add_checkpoint(CLI::App& command, std::string& checkpoint) {
  command
      .add_option("--checkpoint", checkpoint,
                  "Run folder (its newest checkpoint), one step's folder, a Hugging Face folder, or a file "
                  "of weights")
      ->required();
}

void add_description(CLI::App& command, std::string& config) {
  command
      .add_option(
          "--config", config,
          "For weights without a configuration: a run's YAML or a config.json that describes the model")
      ->type_name("FILE")
      ->default_str("");
}

std::vector<std::string> evaluation_settings(const std::vector<std::string>& given, const Family& family) {
  constexpr std::string_view kData = "data=";
  std::vector<std::string> settings;
  for (const std::string& text : given) {
    if (text.starts_with(kData)) settings = family.defaults().evaluation_settings(text.substr(kData.size()));
  }
  for (const std::string& text : given) {
    if (!text.starts_with(kData)) settings.push_back(text);
  }
  return settings;
}

std::vector<std::string> PlacementArgs::settings() const {
  std::vector<std::string> settings = overrides;
  if (!device.empty()) settings.push_back("device=" + device);
  if (device == "cpu") settings.emplace_back("tf32=false");
  return settings;
}

void add_placement(CLI::App& command, PlacementArgs& args) {
  command.add_option("--threads", args.threads, "CPU threads; 0: all processors");
  command.add_option("--device", args.device, "cpu, cuda or cuda:N; by default that of the training run");
  command.add_option("overrides", args.overrides, "Any setting of the run")
      ->type_name("key.path=value")
      ->default_str("");
}

void add_set(CLI::App& command, std::vector<std::string>& settings) {
  command.add_option("--set", settings, "A setting, like key.path=value without --set; repeatable")
      ->type_name("key.path=value")
      ->default_str("")
      ->allow_extra_args(false);
}

void move_settings(std::vector<std::string>& values, std::vector<std::string>& settings) {
  const auto is_value = [](const std::string& text) { return !is_setting(text); };
  const auto first = std::stable_partition(values.begin(), values.end(), is_value);
  settings.insert(settings.end(), first, values.end());
  values.erase(first, values.end());
}

void add_checkpoint_and_text(CLI::App& command, CheckpointArgs& args) {
  add_checkpoint(command, args.checkpoint);
  command.add_option("overrides", args.overrides, "data=PATH, or any setting of the run")
      ->type_name("key.path=value")
      ->default_str("");
}

}  // namespace moh::cli
