#include "train/tools/bench/step_profile.h"

#include <catch2/catch.hpp>

using namespace moh;

TEST_CASE("bench: a profile joins an op's phases, per step, and says what is left over") {
  const std::vector<ProfileEntry> entries = {
      {.op = "rms_norm", .phase = ProfilePhase::kForward, .seconds = 0.002, .calls = 8},
      {.op = "rms_norm", .phase = ProfilePhase::kBackward, .seconds = 0.004, .calls = 8},
      {.op = "matmul", .phase = ProfilePhase::kForward, .seconds = 0.020, .calls = 2, .flops = 4e9},
      {.op = "adamw", .phase = ProfilePhase::kOptimizer, .seconds = 0.001, .calls = 2}};
  const StepProfile profile = summarize_profile(entries, 2, 0.030);
  CHECK(profile.step_ms == Approx(15));
  REQUIRE(profile.ops.size() == 3);
  CHECK(profile.ops[0].op == "matmul");
  CHECK(profile.ops[0].forward_ms == Approx(10));
  CHECK(profile.ops[0].gflops == Approx(200));  // 4 GFLOP in 20 ms
  CHECK(profile.ops[1].op == "rms_norm");
  CHECK(profile.ops[1].forward_ms == Approx(1));
  CHECK(profile.ops[1].backward_ms == Approx(2));
  CHECK(profile.ops[1].calls == 8);
  CHECK(profile.ops[1].gflops == 0);
  CHECK(profile.ops[2].optimizer_ms == Approx(0.5));
  CHECK(profile.other_ms() == Approx(1.5));
}
