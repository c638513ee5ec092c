#pragma once

#include <string>

#include "core/function_ref.h"

namespace moh {

/// How a child process ended.
struct ChildResult {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;
  std::string output;  ///< what `body` returned, or the message of the exception that left it (exit code 1)
};

/// Runs `body` in a forked process and waits for it. Since only the calling thread survives a fork, `body`
/// must not use parallel loops: tensors are made before.
ChildResult run_in_child(FunctionRef<std::string()> body);

}  // namespace moh
