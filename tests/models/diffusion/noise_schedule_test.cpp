#include "models/diffusion/noise_schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/random.h"
#include "models/diffusion/reverse_step.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

Tensor normals(const Shape& shape, std::uint64_t stream) {
  Tensor t = empty(shape, DType::kFloat32);
  fill_normal(t, {1, stream}, 0, 1);
  return t;
}

}  // namespace

TEST_CASE("diffusion: kept steps begin at the first and end at the last, evenly") {
  CHECK(even_steps(1000, 5) == std::vector<std::int64_t>{0, 250, 500, 749, 999});
  CHECK(even_steps(10, 1) == std::vector<std::int64_t>{0});
  CHECK(even_steps(4, 4) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(steps_of("2,1", 5) == std::vector<std::int64_t>{0, 2, 3});
  CHECK(steps_of("ddim5", 10) == std::vector<std::int64_t>{0, 2, 4, 6, 8});
  for (const char* text : {"", "0", "11", "2,", "ddim7", "ddim", "x", "-3", "9,9"}) {
    INFO(text);
    CHECK_THROWS_AS(steps_of(text, 10), ValueError);
  }
}

TEST_CASE(
    "diffusion: a process that keeps every step is the same, and one that keeps some has their products") {
  const NoiseSchedule whole = NoiseSchedule::linear(1000);
  const NoiseSchedule few = whole.respaced(even_steps(1000, 10));
  CHECK(few.size() == 10);
  for (std::int64_t i = 0; i < few.size(); ++i)
    CHECK(few[i].product == Approx(whole[few[i].trained_step].product).epsilon(1e-10));
  CHECK(whole.respaced(even_steps(1000, 1000))[417].beta == Approx(whole[417].beta).epsilon(1e-10));
  CHECK(whole[0].beta == Approx(1e-4).epsilon(1e-9));
  CHECK(whole[999].beta == Approx(0.02).epsilon(1e-9));
  CHECK(std::isfinite(whole.respaced({999})[0].log_posterior));
  CHECK_THROWS_AS(whole.respaced({3, 3}), ValueError);
  CHECK_THROWS_AS(whole.respaced({1000}), ValueError);
  CHECK_THROWS_AS(whole.respaced({}), ValueError);
}

TEST_CASE("diffusion: a step back by the true noise finds x_0, whatever the sampler") {
  const NoiseSchedule schedule = NoiseSchedule::linear(1000);
  const Tensor start = normals({2, 3, 2, 2}, 1), noise = normals({2, 3, 2, 2}, 2);
  const Tensor x = empty_like(start);
  const std::vector<std::int64_t> steps = {0, 700};
  for (std::int64_t b = 0; b < 2; ++b)
    add_noise(schedule[steps[static_cast<std::size_t>(b)]], start.select(b).span<float>(),
              noise.select(b).span<float>(), x.select(b).span<float>());
  for (const SamplerKind kind : {SamplerKind::kAncestral, SamplerKind::kDdim}) {
    const ReverseStep back = reverse_step(schedule, x, noise, steps, {}, {.kind = kind});
    for (std::int64_t i = 0; i < start.numel(); ++i)
      CHECK(back.start.data<float>()[i] == Approx(start.data<float>()[i]).margin(2e-4));
    // The first step ends at x_0.
    for (std::int64_t i = 0; i < start.numel() / 2; ++i)
      CHECK(back.sample.data<float>()[i] == Approx(start.data<float>()[i]).margin(2e-4));
  }
}

TEST_CASE("diffusion: noise is not read in the first step") {
  const NoiseSchedule schedule = NoiseSchedule::linear(1000);
  const Tensor x = normals({1, 1, 2, 2}, 1), prediction = normals({1, 2, 2, 2}, 2);
  const Tensor broken = full({1, 1, 2, 2}, std::numeric_limits<double>::quiet_NaN(), DType::kFloat32);
  const std::vector<std::int64_t> first = {0}, second = {1};
  CHECK(reverse_step(schedule, x, prediction, first, broken, {}).sample.all_finite());
  CHECK_FALSE(reverse_step(schedule, x, prediction, second, broken, {}).sample.all_finite());
}

TEST_CASE("diffusion: guidance of scale 1 changes nothing, and of any other the first channels alone") {
  const Tensor with = normals({2, 8, 2, 2}, 1), without = normals({2, 8, 2, 2}, 2), guided = with.clone();
  guide(guided, without, 3, 1.0);
  for (std::int64_t i = 0; i < with.numel(); ++i)
    CHECK(guided.data<float>()[i] == Approx(with.data<float>()[i]).margin(1e-6));
  guided.copy_from(with);
  guide(guided, without, 3, 4.0);
  for (std::int64_t i = 0; i < with.numel(); ++i) {
    const float a = with.data<float>()[i], b = without.data<float>()[i];
    CHECK(guided.data<float>()[i] == (i % 32 < 12 ? b + 4 * (a - b) : a));
  }
}

TEST_CASE("diffusion: steps back refuse what does not fit") {
  const NoiseSchedule schedule = NoiseSchedule::linear(1000);
  const Tensor x = normals({2, 1, 2, 2}, 1);
  const std::vector<std::int64_t> steps = {4, 5}, one = {4};
  CHECK_THROWS_AS(reverse_step(schedule, x, normals({2, 3, 2, 2}, 1), steps, {}, {}), ShapeError);
  CHECK_THROWS_AS(reverse_step(schedule, x, x, one, {}, {}), ShapeError);
  CHECK_THROWS_AS(reverse_step(schedule, x, x, steps, normals({2, 1, 2, 1}, 1), {}), ShapeError);
}
