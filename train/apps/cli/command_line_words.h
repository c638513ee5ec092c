#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the name of the library's
class App;
}

namespace moh::cli {

/// The arguments of the program with --checkpoint in front of a path that follows a command which has that
/// option: `moh eval runs/x` is `moh eval --checkpoint runs/x`. Nothing changes if --checkpoint is given.
std::vector<std::string> with_checkpoint_named(const CLI::App& app, std::vector<std::string> arguments);

/// Throws ConfigError for a word among the settings of a parsed command that takes a checkpoint, unless it is
/// a setting, key.path=value: a prompt without --prompt, a second checkpoint.
void refuse_words(const CLI::App& app);

}  // namespace moh::cli
