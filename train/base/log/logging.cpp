#include "train/base/log/logging.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"
#include "train/base/io/printable.h"

namespace moh {

namespace {

enum class Level { kTrace, kDebug, kInfo, kWarning, kError, kOff };
constexpr std::array<std::string_view, 6> kLevelNames = {"trace", "debug", "info", "warning", "error", "off"};

/// Writes lines of `level` and above.
struct Log {
  std::mutex mutex;
  std::shared_ptr<Console> console = std::make_shared<Console>(STDERR_FILENO);
  Level level = Level::kInfo;
};

Log& the_log() {
  static Log log;
  return log;
}

void log(Level level, std::string_view message) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (level < log.level) return;
  const std::string line =
      fmt::format("{:%H:%M:%S} {}: {}", fmt::localtime(std::time(nullptr)),
                  kLevelNames[static_cast<std::size_t>(level)], printable_lines(message));
  log.console->print(line, level < Level::kWarning    ? Tone::kPlain
                           : level == Level::kWarning ? Tone::kWarning
                                                      : Tone::kError);
}

}  // namespace

void start_logging(std::shared_ptr<Console> console, std::string_view level) {
  std::string_view where = "--log-level";
  if (level.empty()) {
    const char* environment = std::getenv("MOH_LOG");
    level = environment == nullptr || *environment == '\0' ? "info" : environment;
    where = "MOH_LOG";
  }
  check_progress_variable();
  const auto* const named = std::ranges::find(kLevelNames, level);
  if (named == kLevelNames.end()) {
    throw ConfigError(error_message(where, "log level", "trace, debug, info, warning, error or off",
                                    "'" + std::string(level) + "'"));
  }
  const std::lock_guard lock(the_log().mutex);
  the_log().console = std::move(console);
  the_log().level = static_cast<Level>(named - kLevelNames.begin());
}

void log_debug(std::string_view message) {
  log(Level::kDebug, message);
}
void log_info(std::string_view message) {
  log(Level::kInfo, message);
}
void log_warning(std::string_view message) {
  log(Level::kWarning, message);
}
void log_error(std::string_view message) {
  log(Level::kError, message);
}

}  // namespace moh
