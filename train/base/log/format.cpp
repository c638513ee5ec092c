#include "train/base/log/format.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace moh {

namespace {

/// A value below 1000 with three significant digits.
std::string three_digits(double value) {
  const int after_point = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return format_fixed(value, after_point);
}

}  // namespace

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e9;  // 30 years: no meaningful estimate is longer
  if (!(seconds >= 0.0) || seconds > kLongest) return "-:--";
  const auto total = static_cast<long long>(std::llround(seconds));
  const long long days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
  if (days > 0) return fmt::format("{}d {:02}:{:02}", days, hours, minutes);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, total % 60);
  return fmt::format("{}:{:02}", minutes, total % 60);
}

std::string format_count(double value) {
  if (!std::isfinite(value)) return "-";
  constexpr std::array<const char*, 5> kPrefixes = {"", "k", "M", "G", "T"};
  std::size_t prefix = 0;
  double scaled = std::abs(value);
  while (scaled >= 999.5 && prefix + 1 < kPrefixes.size()) {
    scaled /= 1000.0;
    ++prefix;
  }
  const std::string digits = prefix == 0 ? format_fixed(scaled, 0) : three_digits(scaled);
  return (value < 0 ? "-" : "") + digits + kPrefixes[prefix];
}

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  auto scaled = static_cast<double>(bytes);
  while (scaled >= 999.5 && unit + 1 < kUnits.size()) {
    scaled /= 1024.0;
    ++unit;
  }
  return (unit == 0 ? format_fixed(scaled, 0) : three_digits(scaled)) + " " + kUnits[unit];
}

std::optional<std::int64_t> parse_bytes(std::string_view text) {
  using Unit = std::pair<std::string_view, double>;
  static constexpr std::array<Unit, 11> kUnits = {{{"", 1},
                                                   {"B", 1},
                                                   {"kB", 1e3},
                                                   {"KB", 1e3},
                                                   {"MB", 1e6},
                                                   {"GB", 1e9},
                                                   {"TB", 1e12},
                                                   {"KiB", 0x1p10},
                                                   {"MiB", 0x1p20},
                                                   {"GiB", 0x1p30},
                                                   {"TiB", 0x1p40}}};
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  while (text.starts_with(' ')) text.remove_prefix(1);
  const auto* const unit = std::ranges::find(kUnits, text, &Unit::first);
  if (unit == kUnits.end()) return std::nullopt;
  const double bytes = number * unit->second;
  return bytes >= 1 && bytes <= 1e18 ? std::optional(static_cast<std::int64_t>(bytes)) : std::nullopt;
}

std::string format_fixed(double value, int digits) {
  return fmt::format("{:.{}f}", value, digits);
}

std::string format_scientific(double value) {
  return fmt::format("{:.2e}", value);
}

std::string format_significant(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

}  // namespace moh
