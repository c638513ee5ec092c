#include "train/apps/python/logging.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "train/base/log/logging.h"

namespace moh::python {

namespace {

std::string& level_between_runs() {
  static std::string level = "warning";
  return level;
}

}  // namespace

void set_log_level(const std::string& level) {
  const bool says = std::getenv("MOH_LOG") != nullptr;
  const std::string chosen = level.empty() && !says ? "warning" : level;
  start_logging(std::make_shared<Console>(STDERR_FILENO), chosen);
  level_between_runs() = chosen;
}

RunLogging::RunLogging(std::shared_ptr<Console> console) {
  start_logging(std::move(console));
}

RunLogging::~RunLogging() {
  start_logging(std::make_shared<Console>(STDERR_FILENO), level_between_runs());
}

}  // namespace moh::python
