#include <catch2/catch.hpp>
#include <cmath>

#include "core/random.h"
#include "ops/device/block.h"
#include "ops/device/math.h"
#include "ops/device/mma.h"
#include "ops/device/warp.h"
#include "tests/ops/device_ways.h"

// What the simulator makes of the primitives that are more than a line: fragments as PTX lays them out.

using namespace moh;

namespace {

/// c [16, 8] = a [16, 16] b [16, 8], one warp, by way of shared memory.
void multiply_kernel(const bfloat16* a, const bfloat16* b, float* c) {
  auto* shared = device::shared_memory<bfloat16>();
  const int lane = device::thread_x();
  for (int i = lane; i < 256; i += device::kWarp) shared[i] = a[i];
  for (int i = lane; i < 128; i += device::kWarp) shared[256 + i] = b[i];
  device::sync_warp();
  std::uint32_t left[4], right[4];
  device::load_matrices(left, shared + lane % 16 * 16 + lane / 16 * 8);
  device::load_matrices_transposed(right, shared + 256 + lane % 16 * 8);
  float sum[4] = {};
  device::multiply_add(sum, left, right[0], right[1]);
  for (int i = 0; i < 4; ++i) c[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}

}  // namespace

TEST_CASE("sim: a product of fragments is the product of the matrices", "[sim]") {
  const Device gpu = test::open_gpu();
  const Tensor a = empty({16, 16}, DType::kBFloat16), b = empty({16, 8}, DType::kBFloat16);
  fill_normal(a, {1, 1}, 0, 1);
  fill_normal(b, {2, 1}, 0, 1);
  const Tensor a_gpu = a.to(gpu), b_gpu = b.to(gpu), c = empty({16, 8}, DType::kFloat32, gpu);
  test::in_each_way([&](const std::string& way) {
    INFO(way);
    cuda::launch("multiply", multiply_kernel, {.threads = 32, .shared_bytes = 384 * sizeof(bfloat16)},
                 a_gpu.data<bfloat16>(), b_gpu.data<bfloat16>(), c.data<float>());
    const Tensor found = c.to(kCpu);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        double expected = 0;
        for (int k = 0; k < 16; ++k)
          expected += a.data<bfloat16>()[i * 16 + k] * b.data<bfloat16>()[k * 8 + j];
        CHECK(found.data<float>()[i * 8 + j] == Approx(expected).margin(1e-4));
      }
    }
  });
}

TEST_CASE("sim: powers of two and pairs of bfloat16", "[sim]") {
  CHECK(device::exp2_fast(3.0F) == 8.0F);
  CHECK(device::exp2_fast(-INFINITY) == 0.0F);
  CHECK(device::exp2_fast(-130.0F) == 0.0F);  // below the normal range
  CHECK(device::pack_bfloat16(1.0F, -2.0F) == 0xc0003f80U);
}
