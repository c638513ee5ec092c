#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "train/apps/cli/commands.h"
#include "train/apps/cli/train_command.h"
#include "train/apps/quickstart/quickstart.h"

namespace moh::cli {

namespace {

struct QuickstartArgs {
  std::string name = "language", folder = "moh_quickstart";
  std::vector<std::string> overrides;
};

int quickstart(const QuickstartArgs& given, const Families& families) {
  QuickstartArgs args = given;
  if (args.name.find('=') != std::string::npos)  // settings alone
    args.overrides.insert(args.overrides.begin(), std::exchange(args.name, QuickstartArgs().name));
  TrainArgs run;
  run.config = write_quickstart(args.name, args.folder).string();
  run.overrides = args.overrides;
  run.start.resume = true;  // an interrupted run goes on, a finished one writes its sample again
  const int code = train(run, families);
  if (code == kDone) std::fputs(("\nNext:\n" + after_quickstart(args.name, args.folder)).c_str(), stdout);
  return code;
}

}  // namespace

void add_quickstart(const Commands& commands) {
  const auto [command, args] = add_command(
      commands, "quickstart", "Train a small model on data that the program has in itself", quickstart);
  std::vector<std::string>& overrides = args.overrides;
  command
      .add_option("name", args.name,
                  "What to train: language, on the prose of moh's documentation; images or diffusion, on "
                  "drawn shapes")
      ->type_name("language|images|diffusion");
  command.add_option("overrides", overrides, "Settings that override those of the run")
      ->type_name("key.path=value")
      ->default_str("");
  command.add_option("--folder", args.folder, "Folder for the configuration, the text and the run");
  command.footer(R"(Examples:
  moh quickstart
  moh quickstart diffusion
  moh quickstart train.steps=600 --folder longer

)" + std::string(kExitCodes));
}

}  // namespace moh::cli
