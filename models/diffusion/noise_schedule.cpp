#include "models/diffusion/noise_schedule.h"

#include <charconv>
#include <cmath>
#include <numeric>
#include <string>

#include "core/error.h"

namespace moh {

namespace {

constexpr double kFirstBeta = 1e-4, kLastBeta = 0.02;

[[noreturn]] void refuse(const std::string& expected, std::string_view found) {
  throw ValueError(error_message("noise schedule", "steps", expected, std::string(found)));
}

/// The nearest integer, of two the even one.
std::int64_t rounded(double number) {
  return static_cast<std::int64_t>(std::nearbyint(number));
}

std::int64_t positive_number(std::string_view text, std::string_view whole) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    refuse("numbers such as 250, 10,15,20 or ddim50", whole);
  return number;
}

/// Every stride-th of all steps, the first stride that gives `count`.
std::vector<std::int64_t> whole_strides(std::int64_t all, std::int64_t count) {
  for (std::int64_t stride = 1; stride < all; ++stride) {
    if ((all + stride - 1) / stride != count) continue;
    std::vector<std::int64_t> steps;
    for (std::int64_t t = 0; t < all; t += stride) steps.push_back(t);
    return steps;
  }
  refuse("a number of steps that a whole stride through " + std::to_string(all) + " gives",
         "ddim" + std::to_string(count));
}

}  // namespace

NoiseSchedule::NoiseSchedule(const std::vector<double>& products,
                             const std::vector<std::int64_t>& trained_steps) {
  double before = 1, product = 1;
  for (std::size_t i = 0; i < products.size(); ++i) {
    NoiseStep s;
    s.trained_step = trained_steps[i];
    s.beta = 1 - products[i] / before;
    before = products[i];
    s.product_before = product;
    product *= 1 - s.beta;
    s.product = product;
    s.signal = std::sqrt(s.product);
    s.noise = std::sqrt(1 - s.product);
    s.per_signal = std::sqrt(1 / s.product);
    s.per_noise = std::sqrt(1 / s.product - 1);
    s.mean_of_start = s.beta * std::sqrt(s.product_before) / (1 - s.product);
    s.mean_of_sample = (1 - s.product_before) * std::sqrt(1 - s.beta) / (1 - s.product);
    s.posterior_variance = s.beta * (1 - s.product_before) / (1 - s.product);
    s.log_beta = std::log(s.beta);
    s.log_posterior = std::log(s.posterior_variance);
    steps_.push_back(s);
  }
  // The first step's posterior has no variance: a process of one step takes its beta.
  if (!steps_.empty())
    steps_[0].log_posterior = steps_.size() > 1 ? steps_[1].log_posterior : steps_[0].log_beta;
}

NoiseSchedule NoiseSchedule::linear(std::int64_t steps) {
  if (steps < 2) refuse("2 or more", std::to_string(steps));
  std::vector<double> products;
  double product = 1;
  const double stride = (kLastBeta - kFirstBeta) / static_cast<double>(steps - 1);
  for (std::int64_t t = 0; t < steps; ++t)
    products.push_back(product *= 1 - (kFirstBeta + stride * static_cast<double>(t)));
  std::vector<std::int64_t> numbers(products.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return {products, numbers};
}

NoiseSchedule NoiseSchedule::respaced(const std::vector<std::int64_t>& kept) const {
  std::vector<double> products;
  std::vector<std::int64_t> numbers;
  std::int64_t last = -1;
  for (const std::int64_t step : kept) {
    if (step <= last || step >= size())
      refuse("ascending numbers below " + std::to_string(size()), std::to_string(step));
    last = step;
    products.push_back((*this)[step].product);
    numbers.push_back((*this)[step].trained_step);
  }
  if (kept.empty()) refuse("at least one", "none");
  return {products, numbers};
}

std::vector<std::int64_t> even_steps(std::int64_t all, std::int64_t count) {
  if (count < 1 || count > all) refuse("1 to " + std::to_string(all), std::to_string(count));
  const double stride = count > 1 ? static_cast<double>(all - 1) / static_cast<double>(count - 1) : 1;
  std::vector<std::int64_t> steps;
  double at = 0;  // summed up, as the reference does: a product rounds to other steps
  for (std::int64_t i = 0; i < count; ++i, at += stride) steps.push_back(rounded(at));
  return steps;
}

std::vector<std::int64_t> steps_of(std::string_view text, std::int64_t all) {
  constexpr std::string_view kWhole = "ddim";
  if (text.starts_with(kWhole)) return whole_strides(all, positive_number(text.substr(kWhole.size()), text));
  std::vector<std::int64_t> counts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    counts.push_back(positive_number(text.substr(begin, end - begin), text));
    begin = end + 1;
  }
  const std::int64_t sections = std::ssize(counts);
  std::vector<std::int64_t> steps;
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < sections; ++i) {
    const std::int64_t length = all / sections + (i < all % sections ? 1 : 0);
    for (const std::int64_t step : even_steps(length, counts[static_cast<std::size_t>(i)]))
      steps.push_back(first + step);
    first += length;
  }
  return steps;
}

}  // namespace moh
