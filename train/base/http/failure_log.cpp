#include "train/base/http/failure_log.h"

#include <string>

#include "train/base/log/logging.h"

namespace moh {

void log_failure(const std::exception& error) noexcept {
  try {
    log_error(std::string("HTTP: ") + error.what());
  } catch (const std::exception&) {
    // The error itself has been dealt with.
  }
}

}  // namespace moh
