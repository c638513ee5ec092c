#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "train/apps/cli/commands.h"
#include "train/apps/doctor/findings_report.h"

namespace moh::cli {

namespace {

struct DoctorArgs {
  std::function<std::string()> version;
  std::string folder = ".";
  bool json = false;
};

int doctor(const DoctorArgs& args, const Families&) {
  const std::vector<Finding> findings = look_around(args.folder);
  const auto text = args.json ? findings_json : findings_text;
  std::fputs(text(args.version(), findings).c_str(), stdout);
  return kDone;
}

}  // namespace

void add_doctor(const Commands& commands, const std::function<std::string()>& version) {
  const auto [command, args] =
      add_command(commands, "doctor", "Say what of this machine moh can use, and what is missing", doctor);
  args.version = version;
  command.add_option("--folder", args.folder, "Folder for runs, whose disk is looked at");
  command.add_flag("--json", args.json, "For reports");
  command.footer(R"(Examples:
  moh doctor
  moh doctor --json > doctor.json)");
}

}  // namespace moh::cli
