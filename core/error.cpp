#include "core/error.h"

namespace moh {

std::string error_message(std::string_view where, std::string_view what, std::string_view expected,
                          std::string_view found, std::string_view fix) {
  std::string text;
  for (std::string_view part : {where, what}) {
    if (!part.empty()) text.append(part).append(": ");
  }
  text.append("expected ").append(expected).append(", found ").append(found);
  if (!fix.empty()) text.append("; ").append(fix);
  return text;
}

void fail_check(const char* file, int line, const char* condition, std::string_view message) {
  throw InternalError(std::string(file) + ":" + std::to_string(line) + ": internal check failed: " +
                      std::string(message) + " (" + condition + "); please report this as a bug in moh");
}

}  // namespace moh
