#include "train/log/logging.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

/// Hands finished lines to the console, whose lock is then the only one that orders lines and progress bar.
class ConsoleSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit ConsoleSink(std::shared_ptr<Console> console) : console_(std::move(console)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    console_->print(decorate(message.level, {line.data(), line.size()}));
  }
  void flush_() override {}  // the console keeps nothing back

  std::string decorate(spdlog::level::level_enum level, std::string_view line) const {
    if (!console_->traits().color || level < spdlog::level::warn) return std::string(line);
    while (line.ends_with('\n')) line.remove_suffix(1);
    const std::string_view color = level == spdlog::level::warn ? "\x1b[33m" : "\x1b[31m";
    return std::string(color).append(line).append("\x1b[0m\n");
  }

  std::shared_ptr<Console> console_;
};

spdlog::level::level_enum parse_level(std::string_view name, std::string_view where) {
  using Level = std::pair<std::string_view, spdlog::level::level_enum>;
  static constexpr std::array<Level, 6> kLevels = {{{"trace", spdlog::level::trace},
                                                    {"debug", spdlog::level::debug},
                                                    {"info", spdlog::level::info},
                                                    {"warning", spdlog::level::warn},
                                                    {"error", spdlog::level::err},
                                                    {"off", spdlog::level::off}}};
  for (const auto& [known, level] : kLevels) {
    if (known == name) return level;
  }
  throw ConfigError(error_message(where, "log level", "trace, debug, info, warning, error or off",
                                  "'" + std::string(name) + "'"));
}

std::shared_ptr<spdlog::logger> make_logger(std::shared_ptr<Console> console,
                                            spdlog::level::level_enum level) {
  auto logger = std::make_shared<spdlog::logger>("moh", std::make_shared<ConsoleSink>(std::move(console)));
  logger->set_level(level);
  logger->set_pattern("%H:%M:%S %l: %v");
  return logger;
}

std::mutex logger_mutex;

std::shared_ptr<spdlog::logger>& logger_slot() {
  static std::shared_ptr<spdlog::logger> logger =
      make_logger(std::make_shared<Console>(STDERR_FILENO), spdlog::level::info);
  return logger;
}

void log(spdlog::level::level_enum level, std::string_view message) {
  std::shared_ptr<spdlog::logger> logger;
  {
    const std::lock_guard lock(logger_mutex);
    logger = logger_slot();
  }
  logger->log(level, spdlog::string_view_t(message.data(), message.size()));
}

}  // namespace

void start_logging(std::shared_ptr<Console> console, std::string_view level) {
  std::string_view where = "--log-level";
  if (level.empty()) {
    const char* environment = std::getenv("MOH_LOG");
    level = environment == nullptr || *environment == '\0' ? "info" : environment;
    where = "MOH_LOG";
  }
  auto logger = make_logger(std::move(console), parse_level(level, where));
  const std::lock_guard lock(logger_mutex);
  logger_slot() = std::move(logger);
}

void log_debug(std::string_view message) {
  log(spdlog::level::debug, message);
}
void log_info(std::string_view message) {
  log(spdlog::level::info, message);
}
void log_warning(std::string_view message) {
  log(spdlog::level::warn, message);
}
void log_error(std::string_view message) {
  log(spdlog::level::err, message);
}

}  // namespace moh
