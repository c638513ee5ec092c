#pragma once

#include <string>

#include "core/error.h"

namespace moh {

/// Another process of the run is missing, stuck, or does something else than this one (exit code 6). After
/// it, nothing can be sent or received any more.
class CommError : public Error {
 public:
  using Error::Error;
  static constexpr int kExitCode = 6;
};

/// Another process of the run ended with an error of its own, and said so.
class PeerError : public CommError {
 public:
  PeerError(const std::string& message, int exit_code) : CommError(message), exit_code_(exit_code) {}
  /// The exit code of that error, which every process of the run ends with.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

}  // namespace moh
