#include "core/cuda/launch_timer.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/cuda/memory_blocks.h"
#include "core/tensor.h"
#include "ops/activation/silu.h"
#include "ops/linalg/matmul.h"
#include "tests/cuda_sim/clock.h"
#include "tests/ops/device_ways.h"

using namespace moh;

namespace {

std::vector<cuda::TimedLaunch> launches_of(const std::function<void()>& run) {
  DeviceClock clock(test::open_gpu());
  std::size_t context = 0;
  const cuda::LaunchTimer timer(clock, [&] { return context++; });
  run();
  return timer.launches();
}

}  // namespace

TEST_CASE(
    "sim: a timer of launches has their names, times, and the bytes of the tensors that they are given") {
  const Device gpu = test::open_gpu();
  cuda::track_blocks();
  const Tensor x = full({1000}, 1, DType::kFloat32, gpu), y = zeros({1000}, DType::kFloat32, gpu);
  Tensor z;
  const auto launches = launches_of([&] {
    x.fill(2);                      // one address as an argument
    y.add(x);                       // two
    y.copy_from(x);                 // a copy of the driver
    z = silu(Variable(x)).value();  // addresses in a struct
    x.add(x);                       // one tensor, twice
  });
  REQUIRE(launches.size() == 5);
  const std::vector<std::string> names = {"fill", "add", "copy_on_device", "silu", "add"};
  const std::vector<std::int64_t> bytes = {4000, 8000, 8000, 8000, 4000};
  for (std::size_t i = 0; i < launches.size(); ++i) {
    CAPTURE(i);
    CHECK(launches[i].name == names[i]);
    CHECK(launches[i].bytes == bytes[i]);
    CHECK(launches[i].context == i);
    const bool is_kernel = names[i] != "copy_on_device";
    CHECK(launches[i].seconds * 1e3 == Approx(is_kernel ? sim::kLaunchMilliseconds : 0).margin(1e-4));
    CHECK((launches[i].resources.threads > 0) == is_kernel);
  }
}

TEST_CASE("sim: a matrix multiplication is timed as a call of the library, with its three matrices") {
  const Device gpu = test::open_gpu();
  cuda::track_blocks();
  const Tensor a = zeros({8, 16}, DType::kBFloat16, gpu), b = zeros({16, 32}, DType::kBFloat16, gpu),
               c = zeros({8, 32}, DType::kBFloat16, gpu);
  matmul_into(c, {a}, {b});  // which chooses an algorithm
  const auto launches = launches_of([&] { matmul_into(c, {a}, {b}); });
  REQUIRE(launches.size() == 1);
  CHECK(std::string(launches[0].name) == "cublasLtMatmul");
  CHECK(launches[0].bytes == 2 * (8 * 16 + 16 * 32 + 8 * 32));
}

TEST_CASE("sim: a kernel that a library's call launches is timed within it") {
  const Tensor x = zeros({8}, DType::kFloat32, test::open_gpu());
  const auto launches = launches_of([&] {
    cuda::timed_call("call", {}, [&] { x.fill(1); });
    x.fill(2);
  });
  REQUIRE(launches.size() == 3);
  CHECK(std::string(launches[0].name) == "call");
  CHECK(launches[0].seconds >= launches[1].seconds);
  CHECK(std::string(launches[1].name) == "fill");
  CHECK(std::string(launches[2].name) == "fill");
}

TEST_CASE("sim: a block of memory is known from its allocation to its release") {
  const Device gpu = test::open_gpu();
  cuda::track_blocks();
  const void* begin = nullptr;
  {
    const Tensor x = zeros({10}, DType::kFloat32, gpu);
    begin = x.raw();
    CHECK(cuda::block_at(static_cast<const std::byte*>(begin) + 39).begin == begin);
    CHECK(cuda::block_at(begin).bytes == 40);
    CHECK(cuda::block_at(static_cast<const std::byte*>(begin) + 40).bytes == 0);
    const int on_the_host = 0;
    CHECK(cuda::block_at(&on_the_host).bytes == 0);
  }
  CHECK(cuda::block_at(begin).bytes == 0);
}
