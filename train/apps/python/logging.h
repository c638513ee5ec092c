#pragma once

#include <memory>
#include <string>

#include "train/base/log/console.h"

namespace moh::python {

/// Log lines of `level` and above go to the error stream from now on; empty: of what MOH_LOG says, else
/// "warning". Throws ConfigError.
void set_log_level(const std::string& level);

/// Lets log lines go to the console of a run, for the lifetime of the object.
class RunLogging {
 public:
  /// Throws ConfigError.
  explicit RunLogging(std::shared_ptr<Console> console);
  ~RunLogging();
  RunLogging(const RunLogging&) = delete;
  RunLogging& operator=(const RunLogging&) = delete;
};

}  // namespace moh::python
