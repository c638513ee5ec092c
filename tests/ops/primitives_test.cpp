#include "tests/ops/primitives.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "core/cuda/graph.h"
#include "core/random.h"
#include "core/tensor.h"
#include "tests/ops/device_ways.h"

// The primitives of kernels, by themselves: fragments as PTX lays them out, copies, warps, blocks; and
// graphs.

namespace moh::test {

namespace {

Tensor bfloat16_normal(const Shape& shape, std::uint64_t seed) {
  const Tensor tensor = empty(shape, DType::kBFloat16);
  fill_normal(tensor, {seed, 1}, 0, 1);
  return tensor;
}

void check_product(bool b_is_transposed) {
  const Device gpu = open_gpu();
  const Tensor a = bfloat16_normal({16, 16}, 1), b = bfloat16_normal({16, 8}, 2);
  const Tensor a_gpu = a.to(gpu), b_gpu = b.to(gpu), c = empty({16, 8}, DType::kFloat32, gpu);
  launch_multiply(a_gpu.data<bfloat16>(), b_gpu.data<bfloat16>(), b_is_transposed, c.data<float>());
  const Tensor found = c.to(kCpu);
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 8; ++j) {
      INFO("c[" << i << ", " << j << "], b " << (b_is_transposed ? "transposed" : "as it is"));
      double expected = 0;
      for (int k = 0; k < 16; ++k)
        expected +=
            a.data<bfloat16>()[i * 16 + k] * b.data<bfloat16>()[b_is_transposed ? j * 16 + k : k * 8 + j];
      CHECK(found.data<float>()[i * 8 + j] == Approx(expected).margin(1e-4));
    }
  }
}

/// Element (row, column) of matrix m is the number 64 m + 8 row + column, which bfloat16 has up to 256.
void check_loads(bool transposed) {
  const Device gpu = open_gpu();
  const Tensor matrices = empty({4, 8, 8}, DType::kBFloat16);
  for (int i = 0; i < 256; ++i) matrices.data<bfloat16>()[i] = static_cast<float>(i);
  const Tensor on_gpu = matrices.to(gpu), registers = empty({4, 32}, DType::kInt32, gpu);
  launch_load_matrices(on_gpu.data<bfloat16>(), transposed,
                       reinterpret_cast<std::uint32_t*>(registers.data<std::int32_t>()));
  const Tensor found = registers.to(kCpu);
  for (int m = 0; m < 4; ++m) {
    for (int lane = 0; lane < 32; ++lane) {
      INFO("register " << m << " of lane " << lane << (transposed ? ", transposed" : ""));
      for (int half = 0; half < 2; ++half) {
        const int group = lane / 4, other = lane % 4 * 2 + half;
        const auto bits = static_cast<std::uint32_t>(found.data<std::int32_t>()[m * 32 + lane]);
        bfloat16 element;
        element.bits = static_cast<std::uint16_t>(half == 0 ? bits : bits >> 16);
        CHECK(static_cast<float>(element) ==
              static_cast<float>(64 * m + (transposed ? 8 * other + group : 8 * group + other)));
      }
    }
  }
}

void check_copies() {
  const Device gpu = open_gpu();
  const Tensor from = empty({2, kCopied}, DType::kFloat32);
  for (std::int64_t i = 0; i < from.numel(); ++i) from.data<float>()[i] = static_cast<float>(i + 1);
  const Tensor on_gpu = from.to(gpu), to = empty_like(on_gpu);
  launch_copies(on_gpu.data<float>(), to.data<float>());
  const Tensor found = to.to(kCpu);
  for (int i = 0; i < 2 * kCopied; ++i) {
    INFO("element " << i);
    const bool zero = i >= kCopied && i / 4 % 2 == 1;
    CHECK(found.data<float>()[i] == (zero ? 0.0F : static_cast<float>(i + 1)));
  }
}

void check_math() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // Ties between two bfloat16 (to the even one, below and above), just beside a tie, the largest, too large;
  // powers that are exact, not normal, 0 and infinite.
  std::vector<float> x = {0,           1,       -1,    3,       0.5F,       1.00390625F, 1.01171875F,
                          1.00390637F, -130,    127,   128,     -125,       kInfinity,   -kInfinity,
                          3.38e38F,    3.4e38F, 1e-3F, -20.25F, 1.0F / 3.0F};
  for (int i = 0; i < 200; ++i) x.push_back(static_cast<float>(i) * 0.173F - 17.0F);
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  const auto count = static_cast<std::int64_t>(x.size());
  const Device gpu = open_gpu();
  const Tensor on_gpu = tensor_of<float>({count}, x).to(gpu), powers = empty_like(on_gpu);
  const Tensor pairs = empty({count}, DType::kInt32, gpu);
  launch_math(on_gpu.data<float>(), static_cast<int>(count), powers.data<float>(),
              reinterpret_cast<std::uint32_t*>(pairs.data<std::int32_t>()));
  const Tensor power = powers.to(kCpu), pair = pairs.to(kCpu);
  for (std::int64_t i = 0; i + 1 < count; ++i) {
    const float value = x[static_cast<std::size_t>(i)], expected = std::exp2(value);
    INFO("2^" << value);
    const float found = power.data<float>()[i];
    if (expected < 0x1p-126F || std::isinf(expected)) {
      CHECK(found == (std::isinf(expected) ? expected : 0.0F));
    } else {
      CHECK(std::fabs(found - expected) <= 4 * 0x1p-23F * expected);
    }
    const auto bits = static_cast<std::uint32_t>(pair.data<std::int32_t>()[i]);
    CHECK((bits & 0xffffU) == bfloat16(value).bits);
    CHECK(bits >> 16 == bfloat16(-value).bits);
  }
  CHECK(std::isnan(power.data<float>()[count - 1]));
  bfloat16 nan;
  nan.bits = static_cast<std::uint16_t>(pair.data<std::int32_t>()[count - 1]);
  CHECK(std::isnan(static_cast<float>(nan)));
}

void check_warp() {
  const Tensor results = empty({3, 32}, DType::kInt32, open_gpu());
  launch_warp(results.data<std::int32_t>());
  const Tensor found = results.to(kCpu);
  for (int lane = 0; lane < 32; ++lane) {
    INFO("lane " << lane);
    CHECK(found.data<std::int32_t>()[lane] == 3 * ((5 * lane + 2) % 32) + 1);
    CHECK(found.data<std::int32_t>()[32 + lane] == 3 * (lane ^ 5) + 1);
    CHECK(static_cast<std::uint32_t>(found.data<std::int32_t>()[64 + lane]) == 0x49249249U);
  }
}

void check_blocks() {
  constexpr int kBlocks = 40;  // fewer than a GPU has room for: each may wait for the one before
  const Tensor counters = zeros({3}, DType::kInt32, open_gpu());
  launch_blocks(kBlocks, counters.data<std::int32_t>());
  int fold = 0;
  for (int block = 0; block < kBlocks; ++block) fold = (fold * 2 + block) % (1 << 16);
  const Tensor found = counters.to(kCpu);
  CHECK(found.data<std::int32_t>()[0] == kBlocks * 64);
  CHECK(found.data<std::int32_t>()[1] == fold);
}

/// 48 KiB may be had without asking, more must be asked for.
void check_shared_memory(int kib) {
  INFO(kib << " KiB");
  const int count = kib * 256;
  const Tensor from = empty({count}, DType::kFloat32);
  for (int i = 0; i < count; ++i) from.data<float>()[i] = static_cast<float>(i);
  const Tensor on_gpu = from.to(open_gpu()), to = empty_like(on_gpu);
  launch_reverse(on_gpu.data<float>(), to.data<float>(), count);
  const Tensor found = to.to(kCpu);
  int wrong = 0;
  for (int i = 0; i < count; ++i) wrong += found.data<float>()[i] != static_cast<float>(count - 1 - i);
  CHECK(wrong == 0);
}

/// A graph computes with what its operands hold when it is launched, on memory of its own.
void check_graph() {
  const auto number = [](double value) { return full({}, value, DType::kFloat32, open_gpu()); };
  const Tensor in = number(1), sum = number(0);
  cuda::Graph graph;
  const auto work = [&] {
    const Tensor twice = in.clone();
    twice.scale(2);
    sum.add(twice);
  };
  graph.rehearse(work);
  graph.capture(work);
  CHECK(sum.item() == 2);
  in.fill(10);
  graph.launch();
  CHECK(sum.item() == 22);
  const std::vector<Tensor> others(5, in.clone());
  in.fill(100);
  graph.launch();
  graph.launch();
  CHECK(sum.item() == 422);
  CHECK(others[4].item() == 10);
}

}  // namespace

TEST_CASE("device primitives: matrices are loaded as PTX lays fragments out", "[device]") {
  in_each_way([](const std::string& way) {
    INFO(way);
    check_loads(false);
    check_loads(true);
  });
}
TEST_CASE("device primitives: a product of fragments is the product of the matrices", "[device]") {
  in_each_way([](const std::string& way) {
    INFO(way);
    check_product(false);
    check_product(true);
  });
}
TEST_CASE("device primitives: asynchronous copies, and zeros in place of them", "[device]") {
  in_each_way([](const std::string& way) {
    INFO(way);
    check_copies();
  });
}
TEST_CASE("device primitives: powers of two and pairs of bfloat16", "[device]") {
  check_math();
}
TEST_CASE("device primitives: shuffles, votes and blocks that wait for each other", "[device]") {
  in_each_way([](const std::string& way) {
    INFO(way);
    check_warp();
    check_blocks();
  });
}
TEST_CASE("device primitives: shared memory up to what a block may have on every GPU", "[device]") {
  for (const int kib : {1, 48, 49, 99}) check_shared_memory(kib);
}
TEST_CASE("device: a graph repeats its work on new operands", "[device]") {
  check_graph();
}

}  // namespace moh::test
