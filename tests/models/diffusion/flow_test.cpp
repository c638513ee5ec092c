#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "models/diffusion/dpm_solver.h"
#include "models/diffusion/flow_sampling.h"
#include "models/diffusion/reverse_step.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kMean = 0.4, kDeviation = 0.5;

Tensor normals(const Shape& shape, std::uint64_t stream) {
  Tensor t = empty(shape, DType::kFloat32);
  fill_normal(t, {1, stream}, 0, 1);
  return t;
}

/// The velocity of data with distribution N(kMean, kDeviation^2), and of noise that is made of it at the end:
/// kMean + kDeviation noise, as no flow of one dimension changes the order of its points.
Tensor velocity_at(FlowPath path, const Tensor& x, double t) {
  const FlowPoint p = point_of(path, t);
  Tensor y = empty_like(x);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const double off = (static_cast<double>(x.data<float>()[i]) - p.signal * kMean) /
                       (p.signal * p.signal * kDeviation * kDeviation + p.noise * p.noise);
    y.data<float>()[i] = static_cast<float>(
        p.signal_slope * (kMean + p.signal * kDeviation * kDeviation * off) + p.noise_slope * p.noise * off);
  }
  return y;
}

Tensor drawn(const FlowSampling& how, const Tensor& noise) {
  return follow_flow(
      noise, how, [&](const Tensor& x, double t) { return velocity_at(how.path, x, t); },
      [&](std::int64_t left) { return normals(noise.shape(), 100 + static_cast<std::uint64_t>(left)); },
      [] { return false; });
}

double worst_error(const FlowSampling& how) {
  const Tensor noise = normals({4, 8}, 3), end = drawn(how, noise);
  double worst = 0;
  for (std::int64_t i = 0; i < noise.numel(); ++i)
    worst = std::max(worst, std::abs(static_cast<double>(end.data<float>()[i]) - kMean -
                                     kDeviation * static_cast<double>(noise.data<float>()[i])));
  return worst;
}

}  // namespace

TEST_CASE("flow: a path goes from noise to data, and its slopes are its derivatives") {
  for (const FlowPath path : {FlowPath::kLinear, FlowPath::kCosine}) {
    const FlowPoint begin = point_of(path, 0), end = point_of(path, 1);
    CHECK(begin.signal == 0);
    CHECK(begin.noise == 1);
    CHECK(end.signal == 1);
    CHECK(end.noise == Approx(0).margin(1e-15));
    CHECK(std::isinf(begin.level()));
    for (const double t : {0.1, 0.5, 0.93}) {
      constexpr double kStep = 1e-6;
      const FlowPoint p = point_of(path, t), above = point_of(path, t + kStep),
                      below = point_of(path, t - kStep);
      CHECK(p.signal_slope == Approx((above.signal - below.signal) / (2 * kStep)).epsilon(1e-8));
      CHECK(p.noise_slope == Approx((above.noise - below.noise) / (2 * kStep)).epsilon(1e-8));
    }
  }
  const std::vector<float> data = {2, -1}, noise = {1, 3};
  std::vector<float> sample(2), velocity(2);
  move_along(point_of(FlowPath::kLinear, 0.25), data, noise, sample, velocity);
  CHECK(sample == std::vector<float>{1.25F, 2.0F});
  CHECK(velocity == std::vector<float>{1, -4});
}

TEST_CASE("flow: twice as many steps halve the error of Euler and quarter that of Heun") {
  for (const FlowPath path : {FlowPath::kLinear, FlowPath::kCosine}) {
    const auto ratio = [&](SamplerKind kind) {
      return worst_error({.kind = kind, .path = path, .steps = 20}) /
             worst_error({.kind = kind, .path = path, .steps = 40});
    };
    CHECK(ratio(SamplerKind::kEuler) == Approx(2).margin(0.3));
    CHECK(ratio(SamplerKind::kHeun) == Approx(4).margin(0.6));
    CHECK(worst_error({.kind = SamplerKind::kHeun, .path = path, .steps = 80}) < 1e-3);
  }
}

TEST_CASE("flow: Euler-Maruyama draws from the data, with any coefficient of its noise") {
  const Tensor noise = normals({4, 4000}, 5);
  for (const FlowPath path : {FlowPath::kLinear, FlowPath::kCosine}) {
    for (const FlowDiffusion form : {FlowDiffusion::kSigma, FlowDiffusion::kSbdm, FlowDiffusion::kConstant}) {
      const Tensor end = drawn({SamplerKind::kEulerMaruyama, path, form, 200}, noise);
      double sum = 0, squares = 0;
      for (const float x : end.span<float>()) sum += x, squares += x * x;
      const double mean = sum / 16000, deviation = std::sqrt(squares / 16000 - mean * mean);
      INFO(static_cast<int>(path) << " " << static_cast<int>(form));
      CHECK(mean == Approx(kMean).margin(0.02));
      // The last step, of 0.04, has no noise, which matters where its coefficient is not near 0 there.
      const double left_out = form == FlowDiffusion::kConstant ? 2 * 0.04 : 0;
      CHECK(deviation == Approx(std::sqrt(kDeviation * kDeviation - left_out)).margin(0.02));
    }
  }
}

TEST_CASE("flow: a request stops it, one step suffices, and what does not fit is refused") {
  const Tensor noise = normals({1, 4}, 5);
  int calls = 0;
  const auto velocity = [](const Tensor& x, double t) { return velocity_at(FlowPath::kLinear, x, t); };
  const auto none = [](std::int64_t) { return Tensor(); };
  CHECK_FALSE(follow_flow(noise, {.steps = 9}, velocity, none, [&] { return ++calls == 3; }).defined());
  CHECK(calls == 3);
  for (const SamplerKind kind : {SamplerKind::kEuler, SamplerKind::kHeun, SamplerKind::kEulerMaruyama})
    CHECK(drawn({.kind = kind, .steps = 1}, noise).all_finite());
  const auto wrong = [](const Tensor&, double) { return zeros({1, 3}, DType::kFloat32); };
  CHECK_THROWS_AS(follow_flow(noise, {.steps = 1}, wrong, none, [] { return false; }), ShapeError);
  CHECK(flow_steps("250") == 250);
  for (const char* text : {"", "0", "-1", "10,15", "ddim50", "100001", "5 "})
    CHECK_THROWS_AS(flow_steps(text), ValueError);
}

TEST_CASE("diffusion: a velocity of DDPM's process holds its noise and its start") {
  const NoiseStep step = NoiseSchedule::linear(1000)[420];
  const Tensor start = normals({1, 3, 2}, 1), noise = normals({1, 3, 2}, 2), x = empty_like(start),
               v = noise.clone();
  add_noise(step, start.span<float>(), noise.span<float>(), x.span<float>());
  velocity_of(step, start.span<float>(), v.span<float>(), v.span<float>());
  for (std::int64_t i = 0; i < x.numel(); ++i)
    CHECK(step.signal * x.data<float>()[i] - step.noise * v.data<float>()[i] ==
          Approx(start.data<float>()[i]).margin(1e-5));
  noise_of_velocity(step, x, v);
  for (std::int64_t i = 0; i < x.numel(); ++i)
    CHECK(v.data<float>()[i] == Approx(noise.data<float>()[i]).margin(1e-5));
  CHECK_THROWS_AS(noise_of_velocity(step, x, normals({1, 6, 2}, 1)), ShapeError);
}

TEST_CASE("dpm-solver: the true noise leads to x_0, whose estimates clipping bounds") {
  const NoiseSchedule schedule = NoiseSchedule::linear(1000).respaced(even_steps(1000, 5));
  const Tensor start = normals({2, 6}, 1), noise = normals({2, 6}, 2);
  for (const bool clip : {false, true}) {
    DpmSolver solver(schedule, clip);
    Tensor x = empty_like(start);
    add_noise(schedule[4], start.span<float>(), noise.span<float>(), x.span<float>());
    for (std::int64_t step = 4; step >= 0; --step) x = solver.step(x, noise, step);
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      const double expected = start.data<float>()[i];
      if (!clip) CHECK(x.data<float>()[i] == Approx(expected).margin(2e-3));
      if (clip) CHECK(std::abs(x.data<float>()[i]) <= 1);
    }
  }
  DpmSolver solver(schedule, false);
  CHECK_THROWS_AS(solver.step(start, normals({2, 9}, 1), 4), ShapeError);
}
