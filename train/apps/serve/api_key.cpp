#include "train/apps/serve/api_key.h"

#include <algorithm>
#include <cctype>

namespace moh {

bool has_api_key(std::string_view authorization, std::string_view key) {
  constexpr std::string_view kScheme = "bearer ";  // in any case (RFC 9110)
  const bool is_bearer = std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, {},
                                            [](unsigned char c) { return std::tolower(c); });
  if (!is_bearer || key.empty()) return false;
  const std::string_view given = authorization.substr(kScheme.size());
  volatile unsigned difference = given.size() == key.size() ? 0 : 1;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference =
        difference | static_cast<unsigned>(static_cast<unsigned char>(given[i] ^ key[i % key.size()]));
  return difference == 0;
}

}  // namespace moh
