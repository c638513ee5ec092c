#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "train/apps/cli/commands.h"
#include "train/apps/watch/terminal_view.h"
#include "train/apps/watch/watch_server.h"
#include "train/base/log/logging.h"
#include "train/trainer/run/stop_signal.h"

namespace moh::cli {

namespace {

struct WatchArgs {
  std::vector<std::string> paths = {"runs"};
  HttpOptions http = {.command = "watch", .port = 8010};
  bool terminal = false;
};

int watch(const WatchArgs& args, const Families&) {
  StopSignal signal;
  const std::vector<std::filesystem::path> paths(args.paths.begin(), args.paths.end());
  const auto stop = [&] { return signal.requested(); };
  if (args.terminal) {
    signal.defer();  // the screen is put back
    watch::watch_in_terminal(paths, stop);
    return kDone;
  }
  const watch::WatchServer server(paths, args.http);
  signal.defer();  // before the line that others wait for
  log_info("watch runs at " + server.address() + " (Ctrl-C ends)");
  while (!stop()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return kDone;
}

}  // namespace

void add_watch(const Commands& commands) {
  const auto [command, args] =
      add_command(commands, "watch", "Show the curves, heads and samples of runs in a browser, live", watch);
  command.add_option("runs", args.paths, "Folders of runs, or folders with runs in them")
      ->capture_default_str();
  command.add_option("--host", args.http.host,
                     "Address to listen at; 0.0.0.0: all, for other machines, which can then read the runs");
  command.add_option("--port", args.http.port, "Port to listen at; 0: any free one, which is logged");
  command.add_flag("--terminal", args.terminal, "Draw losses in this terminal instead, such as over ssh");
  command.footer(
      R"(Nothing in the folders is changed. Ctrl-C and SIGTERM end the command.

Examples:
  moh watch
  moh watch runs/sweep --port 8011
  moh watch runs/llm/quickstart --terminal
  ssh -L 8010:127.0.0.1:8010 MACHINE moh watch)");
}

}  // namespace moh::cli
