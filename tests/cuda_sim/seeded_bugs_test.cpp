#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <vector>

#include "core/tensor.h"
#include "ops/device/async_copy.h"
#include "ops/device/atomic.h"
#include "ops/device/block.h"
#include "ops/device/warp.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/ops/device_ways.h"

// The simulator finds what a device would answer with garbage or a hang. Each kernel here is right without
// its bug, so that it is the bug that is found.

using namespace moh;

namespace {

constexpr int kThreads = 64;

enum class Bug { kNone, kNoBarrier, kNoWait, kNoBarrierAfterWait, kNoBarrierBeforeReuse };
constexpr int kWays = static_cast<int>(sim::kWays.size());

/// out[i] = in[kThreads - 1 - i], by way of shared memory.
void reverse_kernel(const float* in, float* out, Bug bug) {
  auto* shared = device::shared_memory<float>();
  shared[device::thread_x()] = in[device::thread_x()];
  if (bug != Bug::kNoBarrier) device::sync_block();
  out[device::thread_x()] = shared[kThreads - 1 - device::thread_x()];
}

/// reverse_kernel(), four elements at a time, by asynchronous copies.
void reverse_copied_kernel(const float* in, float* out, Bug bug) {
  auto* shared = device::shared_memory<float>();
  if (device::thread_x() < kThreads / 4)
    device::copy_async_16(shared + 4 * device::thread_x(), in + 4 * device::thread_x(), true);
  device::commit_copies();
  if (bug != Bug::kNoWait) device::wait_copies<0>();
  if (bug != Bug::kNoBarrierAfterWait) device::sync_block();
  out[device::thread_x()] = shared[kThreads - 1 - device::thread_x()];
}

/// out[i] = the sum over rounds r of in[r, kThreads - 1 - i], through one buffer that each round fills anew.
void sum_reversed_kernel(const float* in, float* out, int rounds, Bug bug) {
  auto* shared = device::shared_memory<float>();
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    shared[device::thread_x()] = in[r * kThreads + device::thread_x()];
    device::sync_block();
    sum += shared[kThreads - 1 - device::thread_x()];
    if (bug != Bug::kNoBarrierBeforeReuse) device::sync_block();
  }
  out[device::thread_x()] = sum;
}

Tensor numbers(int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(static_cast<float>(i));
  return tensor_of<float>({count}, values);
}

/// Whether every element of `out` is what it should be.
bool is_reversed(const Tensor& out, int rounds) {
  const Tensor here = out.to(kCpu);
  for (int i = 0; i < kThreads; ++i) {
    float expected = 0;
    for (int r = 0; r < rounds; ++r) expected += static_cast<float>(r * kThreads + kThreads - 1 - i);
    if (here.data<float>()[i] != expected) return false;
  }
  return true;
}

/// out[i] = the sum over rounds of the numbers that both warps have, of which lane 0 of each puts its own
/// into shared memory.
void sum_of_warps_kernel(const float* in, float* out, int rounds, Bug bug) {
  auto* space = device::shared_memory<float>();
  float sum = 0;
  for (int r = 0; r < rounds; ++r) {
    const float own = in[r * kThreads + device::thread_x()];
    const float all = device::shuffle_xor(own, 1) + own;
    if (device::thread_x() % device::kWarp == 0) space[device::thread_x() / device::kWarp] = all;
    device::sync_block();
    sum += space[0] + space[1];
    if (bug != Bug::kNoBarrierBeforeReuse) device::sync_block();
  }
  out[device::thread_x()] = sum;
}

/// How many of the ways give the right result.
template <class Launch>
int right_ways(int rounds, const Launch& launch) {
  const Device gpu = test::open_gpu();
  const Tensor in = numbers(rounds * kThreads).to(gpu);
  int right = 0;
  for (const sim::Way& way : sim::kWays) {
    const sim::FreedomScope scope(way.freedom);
    const Tensor out = empty({kThreads}, DType::kFloat32, gpu);
    launch(in.data<float>(), out.data<float>());
    right += is_reversed(out, rounds);
  }
  return right;
}

const cuda::LaunchShape kOneBlock{.threads = kThreads, .shared_bytes = kThreads * sizeof(float)};

int right_reversals(Bug bug) {
  return right_ways(
      1, [&](const float* in, float* out) { cuda::launch("bug", reverse_kernel, kOneBlock, in, out, bug); });
}
int right_copied_reversals(Bug bug) {
  return right_ways(1, [&](const float* in, float* out) {
    cuda::launch("bug", reverse_copied_kernel, kOneBlock, in, out, bug);
  });
}
int right_sums(Bug bug) {
  return right_ways(5, [&](const float* in, float* out) {
    cuda::launch("bug", sum_reversed_kernel, kOneBlock, in, out, 5, bug);
  });
}

void divergent_barrier_kernel() {
  if (device::thread_x() < kThreads / 2) device::sync_block();
}
void divergent_warp_kernel(float* out) {
  const float own = static_cast<float>(device::thread_x());
  if (device::thread_x() % 2 == 0) {
    out[device::thread_x()] = device::shuffle_xor(own, 2);
  } else {
    out[device::thread_x()] = device::shuffle_xor(own, 1);
  }
}
void endless_wait_kernel(const int* flag) {
  device::wait_for(flag, 1);
}
void overrun_kernel(int past) {
  device::shared_memory<float>()[kThreads - 1 + past * (device::thread_x() == 3)] = 1.0F;
}
void misaligned_copy_kernel(const float* in) {
  device::copy_async_16(device::shared_memory<float>(), in, true);
}

/// Each block waits for the one before it, then adds its number: blocks that run at once, one that has to
/// wait.
void in_turn_kernel(int* turn, int* sum) {
  const int own = static_cast<int>(device::block_x());
  if (device::thread_x() == 0) device::wait_for(turn, own);
  device::sync_block();
  if (device::thread_x() == 0) *sum = *sum * 2 + own;
  device::sync_block();
  if (device::thread_x() == 0) device::release(turn, own + 1);
}

}  // namespace

TEST_CASE("sim: a missing barrier shows", "[sim]") {
  CHECK(right_reversals(Bug::kNone) == kWays);
  CHECK(right_reversals(Bug::kNoBarrier) == 0);
}

TEST_CASE("sim: a missing wait for copies shows, and a missing barrier after it", "[sim]") {
  CHECK(right_copied_reversals(Bug::kNone) == kWays);
  CHECK(right_copied_reversals(Bug::kNoWait) <= 2);  // late copies are what shows it
  CHECK(right_copied_reversals(Bug::kNoBarrierAfterWait) <= 2);
}

TEST_CASE("sim: a buffer that is filled again too early shows", "[sim]") {
  CHECK(right_sums(Bug::kNone) == kWays);
  CHECK(right_sums(Bug::kNoBarrierBeforeReuse) < kWays);
}

TEST_CASE("sim: a warp that runs ahead of a barrier that is missing shows", "[sim]") {
  constexpr int kRounds = 5;
  const Device gpu = test::open_gpu();
  const Tensor in = numbers(kRounds * kThreads).to(gpu), out = empty({kThreads}, DType::kFloat32, gpu);
  float expected = 0;  // of lanes 0 and 1, and of lanes 32 and 33
  for (int r = 0; r < kRounds; ++r) expected += static_cast<float>(4 * r * kThreads + 0 + 1 + 32 + 33);
  const auto is_right = [&](sim::ThreadOrder order, Bug bug) {
    const sim::FreedomScope scope({.order = order});
    cuda::launch("bug", sum_of_warps_kernel, kOneBlock, in.data<float>(), out.data<float>(), kRounds, bug);
    const Tensor here = out.to(kCpu);
    return std::all_of(here.data<float>(), here.data<float>() + kThreads,
                       [&](float sum) { return sum == expected; });
  };
  for (const sim::Way& way : sim::kWays) CHECK(is_right(way.freedom.order, Bug::kNone));
  CHECK_FALSE(is_right(sim::ThreadOrder::kWarpAhead, Bug::kNoBarrierBeforeReuse));
}

TEST_CASE("sim: a deadlock is reported with block, thread and line", "[sim]") {
  test::open_gpu();
  CHECK_THROWS_WITH(cuda::launch("divergent", divergent_barrier_kernel, kOneBlock),
                    Catch::Contains("kernel divergent: deadlock") &&
                        Catch::Contains("block (0, 0, 0) thread (0, 0, 0)") &&
                        Catch::Contains("sync_block at") && Catch::Contains("seeded_bugs_test.cpp:") &&
                        Catch::Contains("32 threads wait and 32 have ended"));
}

TEST_CASE("sim: lanes of a warp at different places are reported", "[sim]") {
  const Tensor out = empty({kThreads}, DType::kFloat32, test::open_gpu());
  CHECK_THROWS_WITH(cuda::launch("divergent", divergent_warp_kernel, kOneBlock, out.data<float>()),
                    Catch::Contains("lanes of a warp are at different places"));
}

TEST_CASE("sim: a wait for what nobody does is reported", "[sim]") {
  const Tensor flag = zeros({1}, DType::kInt32, test::open_gpu());
  CHECK_THROWS_WITH(cuda::launch("endless", endless_wait_kernel, kOneBlock, flag.data<std::int32_t>()),
                    Catch::Contains("threads wait for what no thread does"));
}

TEST_CASE("sim: blocks that wait for each other run at once", "[sim]") {
  const Device gpu = test::open_gpu();
  for (const sim::Way& way : sim::kWays) {
    const sim::FreedomScope scope(way.freedom);
    const Tensor turn = zeros({1}, DType::kInt32, gpu), sum = zeros({1}, DType::kInt32, gpu);
    cuda::launch("in_turn", in_turn_kernel, {.blocks_x = 5, .threads = 32}, turn.data<std::int32_t>(),
                 sum.data<std::int32_t>());
    CHECK(sum.item() == 26);  // (((0 * 2 + 1) * 2 + 2) * 2 + 3) * 2 + 4
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which reports it itself, and ends the process
TEST_CASE("sim: writing past shared memory is reported", "[sim]") {
  test::open_gpu();
  CHECK_NOTHROW(cuda::launch("overrun", overrun_kernel, kOneBlock, 0));
  CHECK_THROWS_WITH(cuda::launch("overrun", overrun_kernel, kOneBlock, 1),
                    Catch::Contains("wrote past its 256 bytes"));
}
#endif

TEST_CASE("sim: addresses of the host and misaligned ones are reported", "[sim]") {
  const Tensor on_host = numbers(8), on_device = on_host.to(test::open_gpu());
  CHECK_NOTHROW(cuda::launch("copy", misaligned_copy_kernel, kOneBlock, on_device.data<float>() + 4));
  CHECK_THROWS_WITH(cuda::launch("copy", misaligned_copy_kernel, kOneBlock, on_device.data<float>() + 1),
                    Catch::Contains("no multiples of 16"));
  CHECK_THROWS_WITH(cuda::launch("copy", misaligned_copy_kernel, kOneBlock, on_host.data<float>()),
                    Catch::Contains("an argument points to host memory"));
}

TEST_CASE("sim: the host cannot read device memory", "[sim]") {
  const Tensor tensor = zeros({4}, DType::kFloat32, test::open_gpu());
  CHECK(tensor.to(kCpu).data<float>()[0] == 0.0F);
  const pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    std::signal(SIGSEGV, SIG_DFL);  // not Catch's report
    _exit(*static_cast<const volatile float*>(tensor.data<float>()) == 0.0F ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFSIGNALED(status) || WEXITSTATUS(status) > 1));
}

TEST_CASE("sim: impossible launches are refused", "[sim]") {
  test::open_gpu();
  const auto launch = [](const cuda::LaunchShape& shape) {
    cuda::launch("refused", overrun_kernel, shape, 0);
  };
  CHECK_THROWS_WITH(launch({.threads = 33}), Catch::Contains("a multiple of 32"));
  CHECK_THROWS_WITH(launch({.threads = 2048}), Catch::Contains("2048 threads"));
  CHECK_THROWS_WITH(launch({.blocks_y = 70000}), Catch::Contains("the grid"));
  // Not what is left of them in 32 bits.
  CHECK_THROWS_WITH(
      launch({.blocks_x = (std::int64_t{1} << 32) + 1}),
      Catch::Contains("kernel refused: the grid: expected at most 2147483647 x 65535 blocks, found "
                      "4294967297 x 1"));
  CHECK_THROWS_WITH(launch({.shared_bytes = 300000}), Catch::Contains("300000 bytes of shared memory"));
}

TEST_CASE("sim: a program without kernels for the GPU says how it was built", "[sim]") {
  test::open_gpu();
  for (const cudaError_t status : {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction})
    CHECK_THROWS_WITH(cuda::check(status, "kernel fill"),
                      Catch::StartsWith("cuda: kernel fill: cudaError") &&
                          Catch::EndsWith("built with CMAKE_CUDA_ARCHITECTURES=90a, this GPU needs 90"));
}
