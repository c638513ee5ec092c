#include "ops/conv/winograd.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "core/allocator.h"
#include "core/dry_run.h"
#include "ops/conv/conv2d.h"
#include "tests/ops/op_run.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Sizes of a 3 x 3 convolution of stride 1.
struct Sizes {
  std::int64_t batch, height, width, channels, outputs, padding;

  Shape x() const { return {batch, height, width, channels}; }
  Shape w() const { return {outputs, channels, 3, 3}; }
};

/// Result and gradients in a dtype, as float64, of operands that the narrowest dtype represents.
std::vector<Tensor> results(const Sizes& sizes, DType dtype, DType operands) {
  const auto leaf = [=](const Shape& shape, std::uint64_t seed) {
    return Variable(normal(shape, seed).to(operands).to(dtype), true);
  };
  const Variable x = leaf(sizes.x(), 1), w = leaf(sizes.w(), 2), b = leaf({sizes.outputs}, 3);
  const Variable y = conv2d(x, w, b, {.padding = sizes.padding});
  y.backward(normal(y.shape(), 4).to(operands).to(dtype));
  std::vector<Tensor> all;
  for (const Tensor& t : {y.value(), x.grad(), w.grad(), b.grad()}) all.push_back(t.to(DType::kFloat64));
  return all;
}

/// The root mean square of the difference of two tensors, relative to that of the second.
double relative_error(const Tensor& found, const Tensor& expected) {
  double difference = 0, size = 0;
  for (std::int64_t i = 0; i < expected.numel(); ++i) {
    const double e = expected.data<double>()[i];
    difference += std::pow(found.data<double>()[i] - e, 2);
    size += e * e;
  }
  return std::sqrt(difference / size);
}

std::vector<Sizes> all_sizes() {
  return {{1, 8, 8, 64, 64, 1},    // whole tiles
          {2, 7, 5, 49, 70, 1},    // tiles, channels and outputs end early
          {1, 1, 3, 64, 48, 1},    // most of a tile is outside
          {1, 9, 6, 48, 65, 0},    // the result is smaller
          {3, 4, 4, 50, 48, 2},    // and larger
          {1, 50, 47, 64, 48, 1},  // several blocks of tiles
          {1, 3, 3, 300, 130, 1}};
}

}  // namespace

TEST_CASE("ops: conv2d by Winograd's transforms agrees with the sum of products in float64") {
  for (const Sizes& sizes : all_sizes()) {
    INFO(to_string(sizes.x()) << " * " << to_string(sizes.w()));
    const std::vector<Tensor> expected = results(sizes, DType::kFloat64, DType::kFloat32),
                              found = results(sizes, DType::kFloat32, DType::kFloat32);
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(relative_error(found[i], expected[i]) < 2e-6);
    const std::vector<Tensor> rounded = results(sizes, DType::kFloat64, DType::kBFloat16),
                              narrow = results(sizes, DType::kBFloat16, DType::kBFloat16);
    // y and dx are rounded once, to 8 bits; dw and db stay in float32.
    for (std::size_t i = 0; i < rounded.size(); ++i)
      CHECK(relative_error(narrow[i], rounded[i]) < (i < 2 ? 2.5e-3 : 2e-6));
  }
}

TEST_CASE("ops: Winograd's transforms are for dense 3 x 3 kernels of stride 1 over many channels") {
  const auto axis = [](std::int64_t kernel, std::int64_t stride) {
    return ConvAxis{16, (16 + 2 - kernel) / stride + 1, kernel, stride, 1};
  };
  const ConvShape dense{1, 64, 64, 1, axis(3, 1), axis(3, 1)};
  CHECK(uses_winograd(dense, DType::kFloat32));
  CHECK(uses_winograd(dense, DType::kBFloat16));
  CHECK_FALSE(uses_winograd(dense, DType::kFloat64));
  const auto with = [&dense](const auto& change) {
    ConvShape shape = dense;
    change(shape);
    return uses_winograd(shape, DType::kFloat32);
  };
  CHECK_FALSE(with([&](ConvShape& s) { s.y = axis(3, 2); }));
  CHECK_FALSE(with([&](ConvShape& s) { s.x = axis(5, 1); }));
  CHECK_FALSE(with([](ConvShape& s) { s.groups = 2; }));
  CHECK_FALSE(with([](ConvShape& s) { s.channels = 3; }));
  CHECK_FALSE(with([](ConvShape& s) { s.outputs = 3; }));
}

TEST_CASE("ops: a dry run counts the workspace of Winograd's transforms") {
  const Sizes sizes{1, 40, 40, 96, 80, 1};
  CpuAllocator& allocator = CpuAllocator::instance();
  allocator.reset_peaks();
  const std::int64_t before = allocator.stats().of(MemoryPurpose::kWorkspace).current_bytes;
  results(sizes, DType::kFloat32, DType::kFloat32);
  const std::int64_t used = allocator.stats().of(MemoryPurpose::kWorkspace).peak_bytes - before;
  const DryRunScope scope;
  results(sizes, DType::kFloat32, DType::kFloat32);
  const std::int64_t counted = scope.memory()->usage(kCpu).stats.of(MemoryPurpose::kWorkspace).peak_bytes;
  CHECK(used > std::int64_t{1} << 20);
  CHECK(counted >= used);
  CHECK(counted < used + used / 10);
}
