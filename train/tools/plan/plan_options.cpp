#include "train/tools/plan/plan_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "train/bench/ceilings.h"
#include "train/io/printable.h"
#include "train/log/format.h"

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

}  // namespace

std::int64_t parse_memory(const std::string& text, const std::string& option) {
  if (const std::optional<std::int64_t> bytes = parse_bytes(text)) return *bytes;
  throw ValueError(error_message(kPlan, option, "bytes, as 141GB, 79.6GiB or 24e9", printable(text)));
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
