#pragma once

#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library's
class App;
class ParseError;
}  // namespace CLI

namespace moh::cli {

/// The innermost parsed command: `bench step` for `moh bench step --frob`.
const CLI::App& innermost(const CLI::App& app);
/// "moh bench step".
std::string words_of(const CLI::App& command);

/// Whether the first argument is a command that does not exist, which is reported here; the parser would say
/// that none is given.
bool refuse_unknown_command(const CLI::App& app, int argc, char** argv);

/// The parser's error in the form of other errors: the command, the problem, and a suggestion for the option
/// or command.
std::string describe_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace moh::cli
