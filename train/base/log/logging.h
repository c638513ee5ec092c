#pragma once

#include <memory>
#include <string_view>

#include "train/base/log/console.h"

namespace moh {

/// Directs log lines to `console`. `level` is one of trace, debug, info, warning, error, off; if empty, the
/// value of the environment variable MOH_LOG, or "info" without it. Throws ConfigError for any other level.
/// Before the first call, lines of level info and above go to stderr.
void start_logging(std::shared_ptr<Console> console, std::string_view level = "");

// Messages may contain names from files: control characters other than newline are printed as \xNN.
void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

}  // namespace moh
