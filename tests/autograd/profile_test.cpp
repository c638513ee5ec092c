#include "autograd/profile.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <thread>

#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/dry_run.h"
#include "core/random.h"
#include "ops/activation/silu.h"
#include "ops/attention/attention.h"
#include "ops/conv/conv2d.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/linalg/linear.h"

using namespace moh;

namespace {

/// A clock that a test moves.
struct FakeClock {
  double now = 100;
  DeviceClock reader{[this] { return now; }};
};

/// The entry of an op in a phase; one without calls where there is none.
ProfileEntry entry_of(const Profiler& profiler, std::string_view op,
                      ProfilePhase phase = ProfilePhase::kForward) {
  for (const ProfileEntry& entry : profiler.entries()) {
    if (entry.op == op && entry.phase == phase) return entry;
  }
  return {};
}

}  // namespace

TEST_CASE("profile: an op's own time leaves out that of ops inside it") {
  FakeClock clock;
  Profiler profiler(clock.reader);
  {
    const ProfileScope outer("outer");
    clock.now += 1;
    for (int i = 0; i < 2; ++i) {
      const ProfileScope inner("inner");
      clock.now += 10;
      const ProfileScope innermost("innermost");
      clock.now += 100;
    }
    clock.now += 2;
  }
  clock.now += 1000;  // in no op
  CHECK(entry_of(profiler, "outer").seconds == 3);
  CHECK(entry_of(profiler, "inner").seconds == 20);
  CHECK(entry_of(profiler, "innermost").seconds == 200);
  CHECK(entry_of(profiler, "outer").calls == 1);
  CHECK(entry_of(profiler, "inner").calls == 2);
  const std::vector<ProfileEntry> entries = profiler.entries();
  CHECK(entries.front().op == "innermost");
  CHECK(entries.back().op == "outer");
}

TEST_CASE("profile: a scope inside one of the same op is the same call, and its time counts once") {
  FakeClock clock;
  Profiler profiler(clock.reader);
  {
    const ProfileScope node("rms_norm");
    clock.now += 1;
    const ProfileScope kernel("rms_norm");
    clock.now += 2;
  }
  CHECK(entry_of(profiler, "rms_norm").seconds == 3);
  CHECK(entry_of(profiler, "rms_norm").calls == 1);
}

TEST_CASE("profile: phases are counted apart and end where their scopes end") {
  FakeClock clock;
  Profiler profiler(clock.reader);
  const auto run = [&](double seconds) {
    const ProfileScope op("op");
    clock.now += seconds;
  };
  run(1);
  {
    const ProfilePhaseScope backward(ProfilePhase::kBackward);
    run(2);
    const ProfilePhaseScope optimizer(ProfilePhase::kOptimizer);
    run(4);
  }
  run(8);
  CHECK(entry_of(profiler, "op").seconds == 9);
  CHECK(entry_of(profiler, "op", ProfilePhase::kBackward).seconds == 2);
  CHECK(entry_of(profiler, "op", ProfilePhase::kOptimizer).seconds == 4);
}

TEST_CASE("profile: names are not made where nobody collects, and other threads are not collected") {
  int described = 0;
  const auto describe = [&] {
    ++described;
    return std::string("described");
  };
  { const ProfileScope ignored(describe, 5.0); }
  CHECK(described == 0);
  FakeClock clock;
  Profiler profiler(clock.reader);
  std::thread([&] { const ProfileScope ignored(describe, 5.0); }).join();
  CHECK(described == 0);
  { const ProfileScope counted(describe, 5.0); }
  CHECK(described == 1);
  CHECK(entry_of(profiler, "described").flops == 5.0);
}

TEST_CASE("profile: ops are found forward and backward, matrix products with their shapes and operations") {
  const Tensor values = full({3, 4}, 0.5, DType::kFloat32), weights = full({5, 4}, 0.25, DType::kFloat32);
  const Variable x(values, true), w(weights, true);
  FakeClock clock;
  Profiler profiler(clock.reader);
  silu(linear(x, w)).backward(full({3, 5}, 1.0, DType::kFloat32));
  CHECK(entry_of(profiler, "silu").calls == 1);
  CHECK(entry_of(profiler, "silu", ProfilePhase::kBackward).calls == 1);
  CHECK(entry_of(profiler, "linear", ProfilePhase::kBackward).calls == 1);
  const ProfileEntry forward = entry_of(profiler, "matmul NT 3x5x4");
  CHECK(forward.calls == 1);
  CHECK(forward.flops == 2 * 3 * 5 * 4);
  CHECK(entry_of(profiler, "matmul NN 3x4x5", ProfilePhase::kBackward).calls == 1);
  CHECK(entry_of(profiler, "matmul TN 5x4x3", ProfilePhase::kBackward).flops == 2 * 3 * 5 * 4);
}

TEST_CASE("profile: model FLOPs are those of all ops, but for what is computed a second time") {
  const Tensor values = full({3, 4}, 0.5, DType::kFloat32), weights = full({5, 4}, 0.25, DType::kFloat32);
  const Variable x(values, true), w(weights, true);
  const auto step = [&](const auto& forward) {
    FakeClock clock;
    Profiler profiler(clock.reader);
    forward().backward(full({3, 5}, 1.0, DType::kFloat32));
    double computed = 0;
    for (const ProfileEntry& entry : profiler.entries()) computed += entry.flops;
    return std::pair(profiler.model_flops(), computed);
  };
  const double product = 2 * 3 * 5 * 4;
  CHECK(step([&] { return linear(x, w); }) == std::pair(3 * product, 3 * product));
  const auto segment = [&](const std::vector<Variable>& in) { return std::vector{linear(in[0], w)}; };
  CHECK(step([&] { return recompute(segment, {x})[0]; }) == std::pair(3 * product, 4 * product));
  const auto read_again = [&] {
    const Variable y = linear(x, w), z = silu(y);
    recompute_when_read(y, [&] { return linear(x, w); });
    return z;
  };
  CHECK(step(read_again) == std::pair(3 * product, 4 * product));
  const Variable up(full({6, 4}, 0.5, DType::kFloat32), true), down(full({5, 6}, 0.5, DType::kFloat32), true);
  const auto mlp = [&](bool recompute_hidden) {
    return step([&] { return gelu_mlp(x, up, {}, down, {}, GeluForm::kTanh, recompute_hidden); });
  };
  const double first = 2 * 3 * 6 * 4, second = 2 * 3 * 5 * 6;
  CHECK(mlp(false) == std::pair(3 * first + 3 * second, 3 * first + 3 * second));
  CHECK(mlp(true) == std::pair(3 * first + 3 * second, 4 * first + 3 * second));
}

TEST_CASE("profile: attention and depthwise convolutions report their operations") {
  const DryRunScope scope;  // reports them as a real run does
  FakeClock clock;
  Profiler profiler(clock.reader);
  const auto head = [](std::int64_t heads) {
    return Variable(zeros({2, 5, heads, 8}, DType::kFloat32), true);
  };
  attention(head(4), head(2), head(2), {}).backward(zeros({2, 5, 4, 8}, DType::kFloat32));
  // 1 + ... + 5 pairs for each of 8 sequences and heads, two products of width 8.
  CHECK(entry_of(profiler, "attention").flops == 8 * 15 * 2 * 2 * 8);
  CHECK(entry_of(profiler, "attention", ProfilePhase::kBackward).flops == 2 * 8 * 15 * 2 * 2 * 8);
  conv2d(Variable(zeros({1, 6, 6, 3}, DType::kFloat32)), Variable(zeros({3, 1, 3, 3}, DType::kFloat32)), {},
         {.groups = 3});
  CHECK(entry_of(profiler, "depthwise_conv2d").flops == 2 * 4 * 4 * 3 * 9);
}

TEST_CASE("profile: attention over documents reports the pairs that see each other") {
  const Variable q(zeros({1, 3, 2, 8}, DType::kFloat32)), k(zeros({1, 5, 2, 8}, DType::kFloat32));
  const Tensor ends = empty({1, 3}, DType::kInt32);
  for (std::int32_t t = 0; t < 3; ++t) ends.data<std::int32_t>()[t] = 1 + 2 * t;
  const auto flops_of = [&](double mean_visible) {
    FakeClock clock;
    Profiler profiler(clock.reader);
    attention(q, k, k, {.causal = false, .document_ends = ends, .sequences = {.mean_visible = mean_visible}});
    return entry_of(profiler, "attention").flops;
  };
  CHECK(flops_of(0) == 2 * (1 + 3 + 5) * 2 * 2 * 8);
  const DryRunScope scope;  // which has no ends
  CHECK(flops_of(0) == 2 * (3 * 5) * 2 * 2 * 8);
  CHECK(flops_of(4) == 2 * (3 * 4) * 2 * 2 * 8);
}

TEST_CASE("profile: ends with its object, also when an op throws") {
  FakeClock clock;
  {
    Profiler profiler(clock.reader);
    const Tensor values = full({3, 4}, 0.5, DType::kFloat32);
    CHECK_THROWS(linear(Variable(values), Variable(full({5, 3}, 1.0, DType::kFloat32))));
    CHECK(profiler.entries().empty());
    CHECK(Profiler::current() == &profiler);
  }
  CHECK(Profiler::current() == nullptr);
}

TEST_CASE("profile: a timer of phases has the time of each phase between two marks") {
  FakeClock clock;
  const auto mark_after = [&](double seconds) {
    clock.now += seconds;
    return clock.reader.mark();
  };
  PhaseTimer timer(clock.reader);
  const auto begin = mark_after(1);
  std::optional<DeviceClock::Mark> middle;
  {
    const ProfilePhaseScope forward(ProfilePhase::kForward);
    mark_after(10);
    {
      const ProfilePhaseScope backward(ProfilePhase::kBackward);
      mark_after(100);
    }
    middle = mark_after(1000);
    mark_after(10000);
  }
  clock.now += 0.5;
  const auto end = clock.reader.mark();
  CHECK(timer.seconds(ProfilePhase::kForward, begin, end) == 11010);
  CHECK(timer.seconds(ProfilePhase::kBackward, begin, end) == 100);
  CHECK(timer.seconds(ProfilePhase::kOptimizer, begin, end) == 0);
  CHECK(timer.seconds(std::nullopt, begin, end) == 0.5);
  CHECK(timer.seconds(ProfilePhase::kForward, begin, *middle) == 1010);
  CHECK(timer.seconds(ProfilePhase::kForward, *middle, end) == 10000);
}

TEST_CASE("profile: intervals are the ops and the outermost phases, one inside the other") {
  FakeClock clock;
  Profiler profiler(clock.reader);
  clock.now += 1;
  {
    const ProfilePhaseScope backward(ProfilePhase::kBackward);
    const ProfileScope outer("outer");
    clock.now += 10;
    const ProfilePhaseScope again(ProfilePhase::kBackward);
    const ProfileScope inner("inner");
    clock.now += 100;
  }
  const std::vector<ProfileInterval> found = profiler.intervals();
  REQUIRE(found.size() == 3);
  CHECK(found[0].op.empty());
  CHECK(found[0].phase == ProfilePhase::kBackward);
  CHECK(found[1].op == "outer");
  CHECK(found[2].op == "inner");
  CHECK(found[0].device_begin == 1);
  CHECK(found[1].device_end == 111);
  CHECK(found[2].device_begin == 11);
  for (std::size_t i = 1; i < found.size(); ++i) {
    CHECK(found[i - 1].begin <= found[i].begin);
    CHECK(found[i].end <= found[i - 1].end);
  }
}
