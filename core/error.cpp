#include "core/error.h"

namespace moh {

namespace {

/// A place is a name, which may come from a file; one that holds line ends or escape sequences could pass for
/// other lines, or steer a terminal.
std::string escaped(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      text += c;
    else
      text.append("\\x").append({kDigits[byte >> 4], kDigits[byte & 15]});
  }
  return text;
}

}  // namespace

std::string error_message(std::string_view where, std::string_view what, std::string_view expected,
                          std::string_view found, std::string_view fix) {
  std::string text;
  for (std::string_view part : {where, what}) {
    if (!part.empty()) text.append(escaped(part)).append(": ");
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
