#pragma once

#include <exception>

namespace moh {

/// Logs an error that no client is told of. Does not throw, even if there is no memory for a message.
void log_failure(const std::exception& error) noexcept;

}  // namespace moh
