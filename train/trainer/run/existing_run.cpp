#include "train/trainer/run/existing_run.h"

#include <sstream>
#include <string_view>
#include <system_error>

#include "core/error.h"
#include "train/base/io/input_file.h"
#include "train/base/io/printable.h"
#include "train/trainer/config/run_config.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOrigin = "# started with: ", kTask = "task: ";

/// The facts that a run's own config.yaml has of it; empty if it does not have them.
struct ExistingRun {
  std::string config_file, task;
};

ExistingRun read_existing(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 1 << 20;
  ExistingRun found;
  try {
    std::istringstream lines(read_text_file(folder / "config.yaml", InputKind::kData, kMostBytes));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(kOrigin) && found.config_file.empty())
        found.config_file = line.substr(kOrigin.size());
      if (line.starts_with(kTask) && found.task.empty()) found.task = line.substr(kTask.size());
    }
  } catch (const Error&) {  // a run whose configuration is gone is a run all the same
    return {};
  }
  return found;
}

/// "runs/llm/quickstart_2", the first of such names that is free.
std::string free_name(const fs::path& folder) {
  std::string name = folder.lexically_normal().string();
  while (name.size() > 1 && name.ends_with('/')) name.pop_back();
  std::error_code ignored;
  for (int i = 2;; ++i) {
    std::string candidate = name + "_" + std::to_string(i);
    if (!fs::exists(candidate, ignored)) return candidate;
  }
}

}  // namespace

std::string origin_line(const std::string& config_file) {
  return std::string(kOrigin) + printable_path(config_file) + '\n';
}

void refuse_existing_run(const RunConfig& run, const std::string& config_file, std::int64_t step) {
  const fs::path& folder = run.output.dir;
  const ExistingRun existing = read_existing(folder);
  const bool same_task = existing.task.empty() || existing.task == run.task;
  const bool same =
      same_task && (existing.config_file.empty() || existing.config_file == printable_path(config_file));
  const std::string name =
      existing.config_file.empty() ? "that run" : "the run of " + printable(existing.config_file);
  const std::string found = "checkpoints up to step " + std::to_string(step) +
                            (existing.config_file.empty() ? "" : " of " + printable(existing.config_file)) +
                            (same_task ? "" : " (task: " + printable(existing.task) + ")");
  const std::string other = "set another output.dir, such as output.dir=" + printable_path(free_name(folder));
  const std::string deletes =
      "--overwrite deletes " + name + ", " + std::to_string(step) + " steps of training, and starts over";
  throw ConfigError(error_message("output.dir", folder.string(), "a folder without a run", found,
                                  (same ? "continue it with --resume, or " : "") + other + "; " + deletes));
}

}  // namespace moh
