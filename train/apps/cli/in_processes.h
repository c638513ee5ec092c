#pragma once

#include <functional>
#include <memory>

#include "train/base/log/console.h"
#include "train/comm/communicator.h"

namespace moh::cli {

/// Runs a command in this process, or as one of several that a launcher has started (open_communicator),
/// which all run it and end with one exit code: that of process 0, or of an error in any of them, which
/// process 0 prints. Throws what `command` throws in a single process.
int in_processes(const std::function<int(Communicator&)>& command);

/// The console of a command: process 0 writes to the file descriptor `to`, the others nowhere.
std::shared_ptr<Console> console_of(const Communicator& processes, int to);

}  // namespace moh::cli
