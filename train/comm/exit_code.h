#pragma once

#include <exception>

namespace moh {

/// The program's exit codes, which processes of a run tell each other; docs/commands.md has the table.
enum ExitCode {
  kDone = 0,
  kFailure = 1,        ///< any other error, such as a bug of moh
  kConfigError = 2,    ///< the configuration or the command line
  kInputError = 3,     ///< a data file or checkpoint that cannot be read
  kNumericAbort = 4,   ///< loss or gradient not finite
  kStorageError = 5,   ///< a file could not be written; earlier checkpoints are intact
  kCommError = 6,      ///< another process of the run failed
  kPreempted = 75,     ///< stopped early with everything saved: start again with --resume (EX_TEMPFAIL)
  kInterrupted = 130,  ///< a signal ended a command that saves nothing (128 + SIGINT, as in shells)
};

/// The exit code of an error; for a PeerError, that of the process that failed.
int exit_code_of(const std::exception& error);

}  // namespace moh
