#include "train/bench/attention_cases.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

std::int64_t AttentionCases::kept_heads(double share) const {
  return std::clamp<std::int64_t>(std::llround(share * static_cast<double>(heads)), 1, heads);
}

void require_option(bool condition, std::string_view bench, std::string_view option,
                    std::string_view expected, std::string_view found) {
  if (!condition) throw ValueError(error_message(bench, option, expected, found));
}

void check(const AttentionCases& c, std::string_view bench) {
  for (const auto& [name, value] : {std::pair<std::string_view, std::int64_t>{"batch", c.batch},
                                    {"heads", c.heads},
                                    {"repeats", c.repeats}}) {
    require_option(value >= 1, bench, name, "1 or more", std::to_string(value));
  }
  require_option(is_floating(c.dtype), bench, "dtype", "a floating dtype", dtype_name(c.dtype));
  require_option(c.warmups >= 0, bench, "warmups", "0 or more", std::to_string(c.warmups));
  require_option(c.head_dim >= 1 && c.head_dim <= 256, bench, "head-dim", "1 to 256",
                 std::to_string(c.head_dim));
  for (std::int64_t tokens : c.tokens) {
    require_option(tokens >= 1, bench, "tokens", "1 or more", std::to_string(tokens));
  }
  for (double active : c.active) {
    require_option(active > 0.0 && active <= 1.0, bench, "active", "a share above 0, at most 1",
                   std::to_string(active));
  }
}

}  // namespace moh
