#include "train/apps/cli/command_line_errors.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "train/base/io/printable.h"
#include "train/base/log/logging.h"
#include "train/config/suggest.h"

namespace moh::cli {

namespace {

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> commands_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* below : command.get_subcommands({})) names.push_back(below->get_name());
  return names;
}

/// Names that other programs give to options, separated by spaces.
struct OtherNames {
  std::string_view names, option;
};
constexpr OtherNames kOtherNames[] = {
    {"max-tokens max-new-tokens num-tokens n-predict length", "--tokens"},
    {"model model-path ckpt checkpoint-path pretrained", "--checkpoint"},
    {"text input", "--prompt"},
    {"temp", "--temperature"},
    {"out output output-dir save-dir", "--out"},
    {"num-samples n-samples", "--count"},
    {"gpu", "--device"},
};

std::string known_elsewhere(const std::string& name, const std::vector<std::string>& options) {
  for (const auto& [names, option] : kOtherNames) {
    if ((" " + std::string(names) + " ").find(" " + name + " ") != std::string::npos &&
        std::ranges::count(options, option) != 0)
      return std::string(option);
  }
  return "";
}

/// The option or setting that an unknown option may have been meant for, in words; "" without an idea.
std::string instead_of_option(const CLI::App& command, const std::string& found) {
  std::string name = found.substr(std::min(found.find_first_not_of('-'), found.size()));
  std::ranges::replace(name, '_', '-');
  const std::vector<std::string> options = options_of(command);
  if (std::string option = known_elsewhere(name, options); !option.empty()) return option;
  if (std::string option = config::nearest_name("--" + name, options); !option.empty()) return option;
  if (command.get_option_no_throw("overrides") == nullptr) return "";
  std::ranges::replace(name, '-', '_');
  const std::string key = config::key_elsewhere(name);
  return key.empty() ? "" : key + "=VALUE, without dashes";
}

/// The options to use in place of words without an option. A conversion reports both of its ends.
std::string instead_of_word(const CLI::App& command, const std::string& found) {
  if (command.get_option_no_throw("--from") != nullptr && command.get_option_no_throw("--to") != nullptr)
    return "use --from and --to";
  const std::string nearest = config::nearest_name(found, commands_of(command));
  return nearest.empty() ? words_of(command) + " --help explains it" : "did you mean " + nearest + "?";
}

}  // namespace

const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.front());
}

std::string words_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent != nullptr ? words_of(*parent) + " " : "") + command.get_name();
}

bool refuse_unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return false;
  const std::vector<std::string> names = commands_of(app);
  const std::string found = argv[1];
  if (std::ranges::find(names, found) != names.end()) return false;
  std::string expected = "one of ";
  for (const std::string& name : names) expected += (name == names.front() ? "" : ", ") + name;
  const std::string nearest = config::nearest_name(found, names);
  log_error(error_message("moh", "command", expected, "'" + printable(found) + "'",
                          nearest.empty() ? "moh --help explains them" : "did you mean " + nearest + "?"));
  return true;
}

std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const std::string words = words_of(command), help = words + " --help explains it";
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  if (left.empty()) return words + ": " + error.what() + "; " + help;
  const std::string found = left.front().substr(0, left.front().find('='));
  if (!found.starts_with('-'))
    return words + ": unexpected argument '" + printable(found) + "'; " + instead_of_word(command, found);
  const std::string instead = instead_of_option(command, found);
  return words + ": " + printable(found) + ": unknown option; " +
         (instead.empty() ? help : "did you mean " + instead + "?");
}

}  // namespace moh::cli
