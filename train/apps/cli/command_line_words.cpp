#include "train/apps/cli/command_line_words.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/error.h"
#include "train/apps/cli/command_line_errors.h"
#include "train/base/io/printable.h"

namespace moh::cli {

namespace {

constexpr const char* kCheckpoint = "--checkpoint";

/// The command that a word names; null for another word.
const CLI::App* command_named(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

bool is_given(const std::vector<std::string>& arguments, const std::string& option) {
  return std::ranges::any_of(arguments, [&](const std::string& argument) {
    return argument == option || argument.starts_with(option + "=");
  });
}

/// A hint about the option that the word may have been meant for.
std::string hint(const CLI::App& command, const std::string& word) {
  if (command.get_option_no_throw("--prompt") != nullptr)
    return "a prompt follows --prompt: --prompt '" + word + "'";
  return "the checkpoint is " + printable(command.get_option(kCheckpoint)->as<std::string>()) + " already";
}

}  // namespace

std::vector<std::string> with_checkpoint_named(const CLI::App& app, std::vector<std::string> arguments) {
  if (arguments.size() < 2) return arguments;
  const CLI::App* const command = command_named(app, arguments[0]);
  if (command == nullptr || command->get_option_no_throw(kCheckpoint) == nullptr) return arguments;
  const std::string& first = arguments[1];
  const bool is_path = !first.starts_with('-') && first.find('=') == std::string::npos;
  if (is_path && command_named(*command, first) == nullptr && !is_given(arguments, kCheckpoint))
    arguments.insert(arguments.begin() + 1, kCheckpoint);
  return arguments;
}

void refuse_words(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const CLI::Option* const settings = command.get_option_no_throw("overrides");
  if (settings == nullptr || settings->count() == 0 || command.get_option_no_throw(kCheckpoint) == nullptr)
    return;
  for (const std::string& word : settings->results()) {
    if (word.find('=') != std::string::npos) continue;
    throw ConfigError(error_message(words_of(command), "'" + printable(word) + "'",
                                    "a setting, key.path=value", "a word", hint(command, printable(word))));
  }
}

}  // namespace moh::cli
