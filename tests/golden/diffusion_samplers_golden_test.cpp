// The ways from noise to pictures against tests/golden/diffusion_samplers/make.py, in float64: what they make
// of noise with a perfect model of normal data.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/diffusion/dpm_solver.h"
#include "models/diffusion/flow_sampling.h"
#include "train/trainer/config/enum_names.h"

using namespace moh;

namespace {

using Json = nlohmann::json;

/// The largest error, as a share of 1 + |x|; found by these tests: 3e-6.
constexpr double kTolerance = 1e-5;

const Json& golden() {
  static const Json file = Json::parse(
      std::ifstream(std::string(MOH_SOURCE_DIR) + "/tests/golden/diffusion_samplers/samplers.json"));
  return file;
}

/// Numbers of two samples, [2, C].
Tensor samples_of(const Json& numbers) {
  const auto values = numbers.get<std::vector<float>>();
  return tensor_of<float>({2, static_cast<std::int64_t>(values.size()) / 2}, values);
}

/// a E[data | x] + b E[eps | x] of x = signal data + noise eps, as the first half of a model's outputs; the
/// second has other numbers, which nobody is to read.
Tensor expectation(const Tensor& x, double signal, double noise, double a, double b) {
  const double mean = golden()["mean"], deviation = golden()["deviation"];
  const std::int64_t elements = x.dim(1);
  Tensor y = full({x.dim(0), 2 * elements}, 1e6, DType::kFloat32);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double off = (static_cast<double>(x.data<float>()[i]) - signal * mean) /
                       (signal * signal * deviation * deviation + noise * noise);
    const double data = mean + signal * deviation * deviation * off, eps = noise * off;
    y.data<float>()[i / elements * 2 * elements + i % elements] = static_cast<float>(a * data + b * eps);
  }
  return y;
}

void check_end(const Tensor& found, const Json& expected) {
  const auto numbers = expected.get<std::vector<double>>();
  REQUIRE(found.numel() == std::ssize(numbers));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    CHECK(static_cast<double>(found.span<float>()[i]) ==
          Approx(numbers[i]).epsilon(kTolerance).margin(kTolerance));
}

template <class E>
E named(const Json& name) {
  const auto names = names_of(E());
  return static_cast<E>(std::ranges::find(names, name.get<std::string>()) - names.begin());
}

}  // namespace

TEST_CASE("golden: ways along a flow, with every path, sampler and coefficient of its noise") {
  const Json& file = golden();
  CHECK(file["flows"].size() == 10);
  for (const Json& way : file["flows"]) {
    FlowSampling how{.kind = named<SamplerKind>(way["sampler"]),
                     .path = named<FlowPath>(way["path"]),
                     .steps = file["steps"]};
    if (way.contains("diffusion")) how.diffusion = named<FlowDiffusion>(way["diffusion"]);
    INFO(way["path"] << " " << way["sampler"] << " " << static_cast<int>(how.diffusion));
    const auto velocity = [&](const Tensor& x, double t) {
      const FlowPoint p = point_of(how.path, t);
      return expectation(x, p.signal, p.noise, p.signal_slope, p.noise_slope);
    };
    // The noise of the step before which so many are left.
    const auto noise = [&](std::int64_t left) {
      return samples_of(file["noise"][static_cast<std::size_t>(how.steps - 1 - left)]);
    };
    check_end(follow_flow(samples_of(file["start"]), how, velocity, noise, [] { return false; }), way["end"]);
  }
}

TEST_CASE("golden: DPM-Solver++ (2M) over kept steps") {
  CHECK(golden()["dpm"].size() == 2);
  for (const Json& way : golden()["dpm"]) {
    const NoiseSchedule schedule = NoiseSchedule::linear(1000).respaced(way["kept"]);
    DpmSolver solver(schedule, /*clip_start=*/false);
    Tensor x = samples_of(golden()["start"]);
    for (std::int64_t step = schedule.size() - 1; step >= 0; --step) {
      const NoiseStep& s = schedule[step];
      x = solver.step(x, expectation(x, s.signal, s.noise, 0, 1), step);
    }
    check_end(x, way["end"]);
  }
}
