#pragma once

#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

/// A request that is answered with an error: OpenAI's {"error": {"message", "type", "param", "code"}}.
class RequestError : public Error {
 public:
  /// `param` names the part of the request that is at fault, if one is.
  RequestError(int status, const std::string& message, std::string param = {})
      : Error(message), status_(status), param_(std::move(param)) {}

  int status() const { return status_; }
  const std::string& param() const { return param_; }

 private:
  int status_;
  std::string param_;
};

/// The error for a parameter of a request: status 400.
inline RequestError bad_parameter(const std::string& name, std::string_view expected,
                                  std::string_view found) {
  return {400, error_message(name, "", expected, found), name};
}

/// The server cannot take a request now: status 503, answered with Retry-After.
inline RequestError overloaded(const std::string& why) {
  return {503, why + "; try again later"};
}

}  // namespace moh
