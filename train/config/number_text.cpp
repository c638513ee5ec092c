#include "train/config/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <system_error>

namespace moh::config {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Excludes texts that std::from_chars accepts and YAML 1.2 does not: leading zeros (010), inf and nan.
bool may_be_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  const bool octal = text.size() > 1 && text[0] == '0' && is_digit(text[1]);
  return !text.empty() && (is_digit(text[0]) || text[0] == '.') && !octal;
}

template <class T, class... Options>
std::optional<T> convert(std::string_view text, Options... options) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);  // from_chars does not accept a plus sign
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, options...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr Suffix kSuffixes[] = {
    {"k", 1e3},     {"K", 1e3},     {"M", 1e6},     {"B", 1e9},      {"G", 1e9},      {"T", 1e12},
    {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
    {"kB", 1e3},    {"KB", 1e3},    {"MB", 1e6},    {"GB", 1e9},     {"%", 0.01}};
constexpr Suffix kTimeSuffixes[] = {{"ms", 1e-3}, {"s", 1},    {"sec", 1},  {"m", 60},
                                    {"min", 60},  {"h", 3600}, {"d", 86400}};

/// The value of "4M", "4 M", "90s": number times suffix.
std::optional<double> number_with_suffix(std::string_view text, std::string_view unit) {
  const std::size_t digits_end = text.find_last_of("0123456789.");
  if (digits_end == std::string_view::npos) return std::nullopt;
  const auto number = parse_number(text.substr(0, digits_end + 1));
  std::string_view suffix = text.substr(digits_end + 1);
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  const std::span<const Suffix> known =
      unit == "seconds" ? std::span<const Suffix>(kTimeSuffixes) : kSuffixes;
  const auto found = std::ranges::find(known, suffix, &Suffix::text);
  if (!number || found == known.end()) return std::nullopt;
  // 0.1% is 0.001, not 0.1 * 0.01 with its rounding error.
  return found->factor < 1 ? *number / std::round(1 / found->factor) : *number * found->factor;
}

/// The value of 0x10, 0o17, 0b11: prefixes of bases in other languages.
std::optional<double> number_in_other_base(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return std::nullopt;
  const int base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : text[1] == 'b' ? 2 : 0;
  if (base == 0) return std::nullopt;
  return convert<std::int64_t>(text.substr(2), base);
}

/// The value of 1_000 and 1,000 without separators, and of 010 without leading zeros. Not of 1,5, whose comma
/// is a decimal one.
std::optional<double> number_without_ornament(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i + 1);
    const std::size_t num_digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    const bool separator = text[i] == '_' || (text[i] == ',' && num_digits == 3);
    if (!separator) digits += text[i];
  }
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return std::nullopt;
  if (is_digit(digits[first])) digits.erase(0, first);
  return parse_number(digits);
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  return may_be_number(text) ? convert<std::int64_t>(text) : std::nullopt;
}

std::optional<double> parse_number(std::string_view text) {
  return may_be_number(text) ? convert<double>(text) : std::nullopt;
}

std::string number_text(double value) {
  constexpr double kExactIntegers = 0x1p53;
  std::array<char, 64> buffer;
  char* const begin = buffer.data();
  char* const limit = begin + buffer.size();
  if (std::trunc(value) == value && std::abs(value) < kExactIntegers) {
    return std::string(begin, std::to_chars(begin, limit, static_cast<std::int64_t>(value)).ptr);
  }
  std::string text(begin, std::to_chars(begin, limit, value).ptr);
  // 1e-05 and 1e+20 as people write them: 1e-5, 1e20.
  const std::size_t exponent = text.find('e');
  if (exponent == std::string::npos) return text;
  const std::size_t digits = text.find_first_of("123456789", exponent);
  const std::string sign = text[exponent + 1] == '-' ? "-" : "";
  return text.substr(0, exponent + 1) + sign + text.substr(digits);
}

std::string number_advice(std::string_view text, bool integer, std::string_view unit) {
  constexpr std::size_t kLongestNumber = 40;
  if (text.size() > kLongestNumber) return "";
  std::optional<double> value = parse_number(text);
  if (!value) value = number_in_other_base(text);
  if (!value) value = number_without_ornament(text);
  if (!value) value = number_with_suffix(text, unit);
  if (!value || (integer && (std::trunc(*value) != *value || std::abs(*value) >= 0x1p53))) return "";
  return "write " + number_text(*value);
}

}  // namespace moh::config
