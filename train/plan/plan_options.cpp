#include "train/plan/plan_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/bench/ceilings.h"
#include "train/io/printable.h"

namespace moh {

namespace {

constexpr const char* kPlan = "moh plan";

/// The number that `text` begins with, which is removed; nothing when it begins with none.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<double> unit_bytes(std::string_view unit) {
  constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {{{"", 1.0},
                                                                           {"B", 1.0},
                                                                           {"kB", 1e3},
                                                                           {"MB", 1e6},
                                                                           {"GB", 1e9},
                                                                           {"TB", 1e12},
                                                                           {"KiB", 0x1p10},
                                                                           {"MiB", 0x1p20},
                                                                           {"GiB", 0x1p30},
                                                                           {"TiB", 0x1p40}}};
  const auto* const found = std::ranges::find(kUnits, unit, &std::pair<std::string_view, double>::first);
  return found == kUnits.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

std::int64_t parse_memory(const std::string& text, const std::string& option) {
  constexpr double kMost = 1e18;
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  const std::optional<double> unit = unit_bytes(rest);
  if (!number || !unit || !(*number * *unit >= 1 && *number * *unit <= kMost)) {
    throw ValueError(error_message(kPlan, option, "bytes, as 141GB, 79.6GiB or 24e9", printable(text)));
  }
  return static_cast<std::int64_t>(*number * *unit);
}

PeakRate parse_peak(const std::string& text, DType dtype, const std::string& option) {
  std::string_view rest = text;
  if (const std::optional<double> number = take_number(rest)) {
    if (rest.empty() && *number > 0) return {*number, ""};
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kShort = {
      {{"H100", "NVIDIA H100 80GB HBM3"}, {"H200", "NVIDIA H200"}, {"A100", "NVIDIA A100-SXM4-80GB"}}};
  const auto* const known =
      std::ranges::find(kShort, text, &std::pair<std::string_view, std::string_view>::first);
  const std::string name(known == kShort.end() ? std::string_view(text) : known->second);
  if (const std::optional<double> gflops = published_gflops(name, dtype)) return {*gflops * 1e-3, name};
  throw ValueError(error_message(
      kPlan, option, "TFLOP/s, or H100, H200 or A100 with precision: bfloat16, whose rates are published",
      printable(text) + " with " + std::string(dtype_name(dtype)),
      "give the number that your GPU reaches in this precision"));
}

}  // namespace moh
