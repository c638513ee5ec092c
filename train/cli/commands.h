#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/tasks/family.h"

namespace CLI {
class App;
}

/// The commands of the `moh` program. Each is a file: its options, and what it does with them, which returns
/// an exit code (exit_code.h) or throws.
namespace moh::cli {

/// The command that was chosen, to run once parsing is over.
using Action = std::function<int(const Families&)>;

void add_train(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_analyze(CLI::App& app, Action& action);
void add_generate(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_checkpoint_commands(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);

/// Options that several commands have.
void add_config_arguments(CLI::App& command, std::string& config, std::vector<std::string>& overrides);
void add_checkpoint(CLI::App& command, std::string& checkpoint);
/// Of the commands that look at a checkpoint with some text.
void add_checkpoint_and_text(CLI::App& command, std::string& checkpoint, std::vector<std::string>& overrides);

/// What ends the help.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 done, 2 configuration or command line, 3 data or checkpoint that cannot be read, 4 loss "
    "not finite,\n"
    "5 file that cannot be written, 75 stopped early with everything saved (start again with --resume).";

}  // namespace moh::cli
