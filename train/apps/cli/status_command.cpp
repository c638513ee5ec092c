#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "train/apps/cli/commands.h"
#include "train/apps/status/status_report.h"

namespace moh::cli {

namespace {

struct StatusArgs {
  std::vector<std::string> paths = {"runs"};
  bool json = false;
};

int status(const StatusArgs& args, const Families&) {
  using std::chrono::system_clock;
  const double now = std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
  std::vector<RunStatus> runs;
  for (const std::string& path : args.paths)
    for (const std::filesystem::path& run : run_folders(path)) runs.push_back(status_of(run, now));
  std::fputs((args.json ? status_json(runs) : status_text(runs)).c_str(), stdout);
  return kDone;
}

}  // namespace

void add_status(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "status", "Say how far runs are: a line for each", status);
  command.add_option("runs", args.paths, "Folders of runs, or folders with runs in them")
      ->capture_default_str();
  command.add_flag("--json", args.json, "Print a JSON array");
  command.footer(
      R"(A run is running, finished, stopped (--resume continues it) or killed: its process ended without a word.

Examples:
  moh status
  moh status runs/llm/quickstart --json)");
}

}  // namespace moh::cli
