#pragma once

#include <memory>
#include <string_view>

#include "train/log/console.h"

namespace moh {

/// Sends log lines to `console` from now on, in place of wherever they went before. `level` is one of trace,
/// debug, info, warning, error, off; when empty, the environment variable MOH_LOG decides, and without it
/// "info". Throws ConfigError for any other level. Until the first call, lines go to the standard error
/// stream at level info.
void start_logging(std::shared_ptr<Console> console, std::string_view level = "");

// Names in a message may come from files: of control characters only line ends are printed, others as \xNN.
void log_debug(std::string_view message);
void log_info(std::string_view message);
void log_warning(std::string_view message);
void log_error(std::string_view message);

}  // namespace moh
