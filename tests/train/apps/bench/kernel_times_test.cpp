#include "train/apps/bench/kernel_times.h"

#include <catch2/catch.hpp>

#include "core/device_clock.h"

using namespace moh;

TEST_CASE(
    "bench: launches are joined by phase, op and kernel, with the rates of their bytes and of their op") {
  DeviceClock clock([now = 0.0]() mutable { return now += 1; });
  Profiler profiler(clock);
  LaunchingOps ops(profiler);
  const std::size_t outside = ops.current();
  std::size_t attention = 0, again = 0, tiles = 0;
  {
    const ProfilePhaseScope phase(ProfilePhase::kBackward);
    const ProfileScope node("attention of a node");
    const ProfileScope op("attention", 6e9);
    attention = ops.current();
    again = ops.current();
    const ProfileScope part("a part without operations");
    tiles = ops.current();
  }
  CHECK(again == attention);
  CHECK(tiles == attention);  // its kernels are among those that the operations take
  CHECK(ops[attention].op == "attention");
  CHECK(ops[attention].phase == ProfilePhase::kBackward);
  CHECK(ops[outside].op.empty());

  const std::vector<cuda::TimedLaunch> launches = {
      {.name = "keys",
       .context = attention,
       .seconds = 1e-3,
       .bytes = 1'000'000,
       .resources = {.registers = 128}},
      {.name = "tiles", .context = tiles, .seconds = 1e-3},
      {.name = "keys", .context = attention, .seconds = 4e-3, .bytes = 1'000'000},
      {.name = "fill", .context = outside, .seconds = 5e-4, .bytes = 1'000'000}};
  const std::vector<KernelTime> kernels = summarize_launches(launches, ops, profiler.entries(), 2);
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].kernel == "keys");
  CHECK(kernels[0].phase == ProfilePhase::kBackward);
  CHECK(kernels[0].calls == 1);  // a step
  CHECK(kernels[0].median_us == Approx(2500));
  CHECK(kernels[0].ms == Approx(2.5));
  CHECK(kernels[0].gbytes_per_s == Approx(0.4));  // 2 MB in 5 ms
  CHECK(kernels[0].op_gflops == Approx(1000));    // 6 GFLOP in the 6 ms of both kernels
  CHECK(kernels[0].resources.registers == 128);
  CHECK(kernels[1].kernel == "tiles");
  CHECK(kernels[1].gbytes_per_s == 0);  // not known
  CHECK(kernels[1].op_gflops == Approx(1000));
  CHECK(kernels[2].op.empty());
  CHECK(kernels[2].op_gflops == 0);
  CHECK(kernels[2].gbytes_per_s == Approx(2));
}
