#include "ops/pool/window_pool.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "core/error.h"
#include "tests/ops/op_run.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Maximum or mean of the pixels of one window of one channel, in plain loops over the padded image.
double pooled(const Tensor& x, const WindowPoolOptions& o, std::int64_t image, std::int64_t y,
              std::int64_t column, std::int64_t c) {
  double most = -std::numeric_limits<double>::infinity(), sum = 0, count = 0;
  for (std::int64_t tap = 0; tap < o.window * o.window; ++tap) {
    const std::int64_t py = y * o.stride - o.padding + tap / o.window,
                       px = column * o.stride - o.padding + tap % o.window;
    if (py < 0 || px < 0 || py >= x.dim(1) || px >= x.dim(2)) continue;
    const double value = x.data<double>()[((image * x.dim(1) + py) * x.dim(2) + px) * x.dim(3) + c];
    most = std::max(most, value);
    sum += value;
    ++count;
  }
  return o.kind == PoolKind::kMax ? most : sum / count;
}

Tensor window_pool_reference(const Tensor& x, const WindowPoolOptions& o) {
  const std::int64_t height = (x.dim(1) + 2 * o.padding - o.window) / o.stride + 1,
                     width = (x.dim(2) + 2 * o.padding - o.window) / o.stride + 1, channels = x.dim(3);
  Tensor y = empty({x.dim(0), height, width, channels}, DType::kFloat64);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const std::int64_t pixel = i / channels;
    y.data<double>()[i] =
        pooled(x, o, pixel / width / height, pixel / width % height, pixel % width, i % channels);
  }
  return y;
}

}  // namespace

TEST_CASE("ops: window_pool pools the pixels inside the image") {
  for (const PoolKind kind : {PoolKind::kMax, PoolKind::kMean}) {
    for (const WindowPoolOptions& options :
         {WindowPoolOptions{kind, 3, 2, 0}, WindowPoolOptions{kind, 3, 1, 1},
          WindowPoolOptions{kind, 1, 1, 0}, WindowPoolOptions{kind, 4, 3, 3}}) {
      for (const Shape& shape : {Shape{2, 9, 7, 5}, Shape{1, 4, 4, 33}, Shape{0, 5, 5, 2}}) {
        const Tensor x = normal(shape), expected = window_pool_reference(x, options);
        for (const DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
          const Tensor found = window_pool(Variable(x.to(dtype)), options).value();
          CHECK(found.shape() == expected.shape());
          check_close(found, expected, dtype == DType::kBFloat16 ? 0x1p-7 : 1e-6, "pooled");
        }
      }
    }
  }
}

TEST_CASE("ops: a NaN is the maximum of its window, and infinities count") {
  const Tensor x = full({1, 3, 3, 1}, -std::numeric_limits<double>::infinity(), DType::kFloat32);
  CHECK(window_pool(Variable(x), {}).value().data<float>()[0] == -std::numeric_limits<float>::infinity());
  for (std::int64_t at = 0; at < 9; ++at) {
    Tensor with = full({1, 3, 3, 1}, 1, DType::kFloat32);
    with.data<float>()[at] = std::numeric_limits<float>::quiet_NaN();
    CHECK(std::isnan(window_pool(Variable(with), {}).value().data<float>()[0]));
  }
}

TEST_CASE("ops: window_pool refuses what does not fit, and gradients") {
  const Variable x(normal({2, 3, 4, 5}));
  CHECK_THROWS_WITH(window_pool(x, {.window = 4}),
                    "window_pool: height: expected 4 or more pixels of x with padding, and fewer than 2^31, "
                    "found 3 + 2 * 0");
  CHECK_THROWS_AS(window_pool(x, {.window = 3, .padding = 3}), ValueError);
  CHECK_THROWS_AS(window_pool(x, {.stride = 0}), ValueError);
  CHECK_THROWS_AS(window_pool(Variable(normal({2, 3, 4})), {}), ShapeError);
  const Variable leaf(normal({1, 3, 3, 1}), true);
  CHECK_THROWS_WITH(window_pool(leaf, {}), Catch::Contains("this op is for inference"));
  const NoGrad no_grad;
  CHECK(window_pool(leaf, {}).value().numel() == 1);
}
