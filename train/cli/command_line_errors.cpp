#include "train/cli/command_line_errors.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "core/error.h"
#include "train/config/suggest.h"
#include "train/io/printable.h"
#include "train/log/logging.h"

namespace moh::cli {

namespace {

/// The innermost parsed command: `bench step` for `moh bench step --frob`.
const CLI::App& innermost(const CLI::App& app) {
  const std::vector<CLI::App*> parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.front());
}

/// "moh bench step".
std::string words_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent != nullptr ? words_of(*parent) + " " : "") + command.get_name();
}

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

}  // namespace

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
  const bool is_option = found.starts_with('-');
  const std::string nearest =
      config::nearest_name(found, is_option ? options_of(command) : commands_of(command));
  return words + ": " +
         (is_option ? printable(found) + ": unknown option; "
                    : "unexpected argument '" + printable(found) + "'; ") +
         (nearest.empty() ? help : "did you mean " + nearest + "?");
}

}  // namespace moh::cli
