#pragma once

#include <exception>

namespace moh::cli {

/// What the program's exit code means; README has the table.
enum ExitCode {
  kDone = 0,
  kFailure = 1,        ///< anything else, such as a bug
  kConfigError = 2,    ///< the configuration or the command line
  kInputError = 3,     ///< a data file or checkpoint that was to be read
  kNumericAbort = 4,   ///< loss or gradient not finite
  kStorageError = 5,   ///< a file could not be written; earlier checkpoints are intact
  kCommError = 6,      ///< another process was lost
  kPreempted = 75,     ///< stopped early with everything saved: start again with --resume (EX_TEMPFAIL)
  kInterrupted = 130,  ///< a signal ended a command that leaves nothing behind (what shells say of Ctrl-C)
};

/// The exit code of an exception that reached main().
int exit_code_of(const std::exception& error);

}  // namespace moh::cli
