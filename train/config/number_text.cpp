#include "train/config/number_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

namespace moh::config {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t num_digits_at(std::string_view text, std::size_t begin) {
  std::size_t i = begin;
  while (i < text.size() && is_digit(text[i])) ++i;
  return i - begin;
}

/// Whether the text has the form of a number, and no digit before it that looks like octal.
bool has_number_form(std::string_view text) {
  std::size_t i = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  const std::size_t num_whole = num_digits_at(text, i);
  if (num_whole > 1 && text[i] == '0') return false;
  i += num_whole;
  std::size_t num_fraction = 0;
  if (i < text.size() && text[i] == '.') {
    num_fraction = num_digits_at(text, i + 1);
    i += 1 + num_fraction;
  }
  if (num_whole + num_fraction == 0) return false;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && (text[i] == '-' || text[i] == '+')) ++i;
    const std::size_t num_exponent = num_digits_at(text, i);
    if (num_exponent == 0) return false;
    i += num_exponent;
  }
  return i == text.size();
}

template <class T, class... Options>
std::optional<T> convert(std::string_view text, Options... options) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);  // from_chars knows no plus
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, options...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr std::array kSuffixes{Suffix{"k", 1e3},      Suffix{"K", 1e3},      Suffix{"M", 1e6},
                               Suffix{"B", 1e9},      Suffix{"G", 1e9},      Suffix{"T", 1e12},
                               Suffix{"Ki", 0x1p10},  Suffix{"Mi", 0x1p20},  Suffix{"Gi", 0x1p30},
                               Suffix{"KiB", 0x1p10}, Suffix{"MiB", 0x1p20}, Suffix{"GiB", 0x1p30},
                               Suffix{"kB", 1e3},     Suffix{"KB", 1e3},     Suffix{"MB", 1e6},
                               Suffix{"GB", 1e9},     Suffix{"%", 0.01}};
constexpr std::array kTimeSuffixes{Suffix{"ms", 1e-3}, Suffix{"s", 1},    Suffix{"sec", 1},  Suffix{"m", 60},
                                   Suffix{"min", 60},  Suffix{"h", 3600}, Suffix{"d", 86400}};

template <std::size_t N>
std::optional<double> factor_of(const std::array<Suffix, N>& suffixes, std::string_view text) {
  const auto found = std::find_if(suffixes.begin(), suffixes.end(), [&](Suffix s) { return s.text == text; });
  if (found == suffixes.end()) return std::nullopt;
  return found->factor;
}

/// "4M", "4 M", "90s": the number before the letters, times what they stand for.
std::optional<double> number_with_suffix(std::string_view text, std::string_view unit) {
  const std::size_t digits_end = text.find_last_of("0123456789.");
  if (digits_end == std::string_view::npos) return std::nullopt;
  const auto number = parse_number(text.substr(0, digits_end + 1));
  std::string_view suffix = text.substr(digits_end + 1);
  while (suffix.starts_with(' ')) suffix.remove_prefix(1);
  const auto factor = unit == "seconds" ? factor_of(kTimeSuffixes, suffix) : factor_of(kSuffixes, suffix);
  if (!number || !factor) return std::nullopt;
  // 0.1% is 0.001, not 0.1 * 0.01 with its rounding error.
  return *factor < 1 ? *number / std::round(1 / *factor) : *number * *factor;
}

/// 0x10, 0o17, 0b11: the bases that other languages write with a prefix.
std::optional<double> number_in_other_base(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return std::nullopt;
  const int base = text[1] == 'x' ? 16 : text[1] == 'o' ? 8 : text[1] == 'b' ? 2 : 0;
  if (base == 0) return std::nullopt;
  const auto value = convert<std::int64_t>(text.substr(2), base);
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

/// Whether the comma at `i` stands before a group of exactly three digits. In 1,5 it is a decimal comma.
bool separates_thousands(std::string_view text, std::size_t i) {
  return num_digits_at(text, i + 1) == 3;
}

/// 1_000 and 1,000 without the separators, 010 without the leading zeros.
std::optional<double> number_without_ornament(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool separator = text[i] == '_' || (text[i] == ',' && separates_thousands(text, i));
    if (!separator) digits += text[i];
  }
  const std::size_t first = digits.find_first_not_of('0');
  if (first == std::string::npos) return std::nullopt;
  if (is_digit(digits[first])) digits.erase(0, first);
  return parse_number(digits);
}

}  // namespace

std::optional<std::int64_t> parse_integer(std::string_view text) {
  if (!has_number_form(text) || text.find_first_of(".eE") != std::string_view::npos) return std::nullopt;
  return convert<std::int64_t>(text);
}

std::optional<double> parse_number(std::string_view text) {
  if (!has_number_form(text)) return std::nullopt;
  return convert<double>(text);
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
