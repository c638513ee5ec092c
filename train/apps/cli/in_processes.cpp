#include "train/apps/cli/in_processes.h"

#include <cstdio>
#include <string>

#include "train/apps/cli/commands.h"
#include "train/base/io/error_words.h"
#include "train/base/log/logging.h"
#include "train/comm/launcher.h"

namespace moh::cli {

namespace {

/// Ends all processes after an error in one of several: with its exit code, and the first one prints it. The
/// first one prints its own errors; another process prints those that the first cannot know.
int end_together(const std::exception& error, Communicator& processes) {
  const int code = exit_code_of(error);
  const std::string words = error_words(error);
  const bool told = processes.report_failure(code, words);
  log_error(words);
  if (!processes.is_rank0() && !told)
    std::fprintf(stderr, "rank %d: error: %s\n", processes.rank(), words.c_str());
  processes.leave_failed(code);
  return code;
}

}  // namespace

int in_processes(const std::function<int(Communicator&)>& command) {
  const std::unique_ptr<Communicator> group = open_communicator();
  if (!group) return command(one_process());
  try {
    group->set_deadline(0);  // texts may take long to become tokens
    const int own = command(*group);
    group->set_deadline(0);  // as may what one of them does at the end
    const auto code = static_cast<int>(group->max(group->is_rank0() ? own : 0));
    group->leave();
    return code;
  } catch (const std::exception& error) {
    return end_together(error, *group);
  }
}

std::shared_ptr<Console> console_of(const Communicator& processes, int to) {
  constexpr int kNowhere = -1;
  return std::make_shared<Console>(processes.is_rank0() ? to : kNowhere);
}

}  // namespace moh::cli
