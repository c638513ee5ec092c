#include <cudnn.h>

#include <catch2/catch.hpp>

#include "core/cuda/graph.h"
#include "core/error.h"
#include "core/math_mode.h"
#include "ops/conv/conv2d.h"
#include "ops/linalg/gemm_options.h"
#include "tests/cuda_sim/cudnn.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"

// Convolutions as they are asked of cuDNN, which is simulated.

using namespace moh;
using sim::Cudnn;
using Direction = Cudnn::Direction;

namespace {

/// A simulated library as it comes, and options of products, for the lifetime of the scope.
class Convolutions {
 public:
  explicit Convolutions(bool tf32 = false) : mode_({.tf32 = tf32}) {
    test::open_gpu();
    reset();
    set_gemm_options({});
  }
  ~Convolutions() {
    reset();
    set_gemm_options({});
  }
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  static int runs(Direction direction, cudnnDataType_t type, cudnnMathType_t math) {
    const auto& calls = Cudnn::instance().calls;
    const auto found = calls.find({direction, type, math});
    return found == calls.end() ? 0 : found->second;
  }
  static int kinds() { return static_cast<int>(Cudnn::instance().calls.size()); }

 private:
  MathModeScope mode_;

  static void reset() {
    const int alive = Cudnn::instance().descriptors;
    Cudnn::instance() = {};
    Cudnn::instance().descriptors = alive;
  }
};

Variable on_gpu(const Shape& shape, DType dtype, std::uint64_t seed, bool grad = true) {
  return Variable(test::normal(shape, seed).to(dtype).to(parse_device("cuda")), grad);
}

/// y and the gradients of x and w. Each test has a number of channels of its own, so that plans of others do
/// not count.
std::vector<Tensor> convolve(DType dtype, std::int64_t channels) {
  const Variable x = on_gpu({2, 6, 7, channels}, dtype, 1), w = on_gpu({5, channels, 3, 3}, dtype, 2);
  const Variable y = conv2d(x, w, {}, {.stride = 2, .padding = 1});
  y.backward(on_gpu(y.shape(), dtype, 3).value());
  return {y.value().to(kCpu), x.grad().to(kCpu), w.grad().to(kCpu)};
}

}  // namespace

TEST_CASE("sim: cuDNN computes convolutions in their type, the gradient of a bfloat16 weight in float32",
          "[sim]") {
  const Convolutions convolutions;
  convolve(DType::kFloat32, 3);
  for (const Direction direction : {Direction::kForward, Direction::kData, Direction::kWeights})
    CHECK(Convolutions::runs(direction, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH) == 1);
  CHECK(Convolutions::kinds() == 3);
  const std::vector<Tensor> found = convolve(DType::kBFloat16, 3);
  CHECK(Convolutions::runs(Direction::kForward, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH) == 1);
  CHECK(Convolutions::runs(Direction::kData, CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH) == 1);
  // TF32 holds what bfloat16 does, so this is exact.
  CHECK(Convolutions::runs(Direction::kWeights, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH) == 1);
  CHECK(found[2].dtype() == DType::kFloat32);
  CHECK_FALSE(
      test::same_bits({{found[2]}, {}, 1}, {{found[2].to(DType::kBFloat16).to(DType::kFloat32)}, {}, 1}));
}

TEST_CASE("sim: float32 convolutions are rounded to TF32 when products are", "[sim]") {
  std::vector<Tensor> plain;
  {
    const Convolutions convolutions;
    plain = convolve(DType::kFloat32, 4);
  }
  const Convolutions convolutions(/*tf32=*/true);
  const std::vector<Tensor> rounded = convolve(DType::kFloat32, 4);
  for (const Direction direction : {Direction::kForward, Direction::kData, Direction::kWeights})
    CHECK(Convolutions::runs(direction, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH) == 1);
  CHECK(Convolutions::kinds() == 3);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    CHECK_FALSE(test::same_bits({{plain[i]}, {}, 1}, {{rounded[i]}, {}, 1}));
    test::check_close(rounded[i], plain[i], 0.1, "TF32");
  }
}

TEST_CASE(
    "sim: a convolution has the math type that its algorithm was proposed with, unless that rounds more",
    "[sim]") {
  const Convolutions convolutions;
  constexpr Direction kForward = Direction::kForward;
  Cudnn::instance().proposed_math = CUDNN_DEFAULT_MATH;
  convolve(DType::kBFloat16, 9);
  CHECK(Convolutions::runs(kForward, CUDNN_DATA_BFLOAT16, CUDNN_DEFAULT_MATH) == 1);
  convolve(DType::kFloat32, 9);
  CHECK(Convolutions::runs(kForward, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH) == 1);
  Cudnn::instance().proposed_math = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
  convolve(DType::kFloat32, 10);  // not with that one, but by the algorithm's name
  CHECK(Convolutions::runs(kForward, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH) == 2);
  CHECK(Convolutions::runs(kForward, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) == 0);
}

TEST_CASE("sim: what describes a convolution is made once, and asked for once", "[sim]") {
  const Convolutions convolutions;
  convolve(DType::kFloat32, 6);
  const int queries = Cudnn::instance().queries, descriptors = Cudnn::instance().descriptors;
  CHECK(queries == 3);
  convolve(DType::kFloat32, 6);
  CHECK(Cudnn::instance().queries == queries);
  CHECK(Cudnn::instance().descriptors == descriptors);
}

TEST_CASE("sim: without a reproducible algorithm a convolution is refused, and leaves nothing behind",
          "[sim]") {
  const Convolutions convolutions;
  Cudnn::instance().has_reproducible = Cudnn::instance().knows_reproducible = false;
  const int descriptors = Cudnn::instance().descriptors;
  CHECK_THROWS_WITH(
      convolve(DType::kFloat32, 7),
      "conv2d: cuDNN: expected an algorithm that gives the same bits in each run, found none of 3 "
      "proposals, and that it does not support the direct ones");
  CHECK(Cudnn::instance().descriptors == descriptors);
}

TEST_CASE("sim: an algorithm that is not proposed, or only with a large workspace, is asked for by its name",
          "[sim]") {
  const Convolutions convolutions;
  Cudnn::instance().has_reproducible = false;
  const Variable x = on_gpu({2, 6, 7, 11}, DType::kFloat32, 1), w = on_gpu({5, 11, 3, 3}, DType::kFloat32, 2);
  const Variable y = conv2d(x, w);
  const Variable expected = conv2d(Variable(x.value().to(kCpu)), Variable(w.value().to(kCpu)));
  test::check_close(y.value().to(kCpu), expected.value(), 1e-4, "by name");
  CHECK(Convolutions::runs(Direction::kForward, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH) == 1);
  Cudnn::instance().has_reproducible = true;
  Cudnn::instance().workspace_bytes = std::size_t{300} << 20;  // more than a proposal may have
  CHECK_NOTHROW(convolve(DType::kFloat32, 12));
}

TEST_CASE("sim: images that begin anywhere are convolved", "[sim]") {
  const Convolutions convolutions;
  const Tensor all = on_gpu({3, 5, 5, 1}, DType::kFloat32, 1).value();  // an image has 100 bytes
  const Variable w = on_gpu({2, 1, 3, 3}, DType::kFloat32, 2);
  const Variable y = conv2d(Variable(all.slice(1, 3)), w);
  const Variable expected = conv2d(Variable(all.slice(1, 3).to(kCpu)), Variable(w.value().to(kCpu)));
  test::check_close(y.value().to(kCpu), expected.value(), 1e-5, "slice");
}

TEST_CASE("sim: convolutions are captured, dense and depthwise, forward and backward", "[sim]") {
  const Convolutions convolutions;
  for (const std::int64_t groups : {1, 8}) {
    const Variable x = on_gpu({2, 6, 6, 8}, DType::kFloat32, 1),
                   w = on_gpu({8, 8 / groups, 3, 3}, DType::kFloat32, 2);
    const Tensor dy = on_gpu({2, 6, 6, 8}, DType::kFloat32, 3).value();
    const Tensor dx = zeros_like(x.value()), dw = zeros_like(w.value());
    const auto work = [&] {
      const Variable fresh_x(x.value(), true), fresh_w(w.value(), true);
      conv2d(fresh_x, fresh_w, {}, {.padding = 1, .groups = groups}).backward(dy);
      dx.copy_from(fresh_x.grad());
      dw.copy_from(fresh_w.grad());
    };
    cuda::Graph graph;
    graph.rehearse(work);
    const Tensor expected_dx = dx.to(kCpu), expected_dw = dw.to(kCpu);
    graph.capture(work);
    dx.fill(0);
    dw.fill(0);
    graph.launch();
    CHECK(test::same_bits({{dx.to(kCpu), dw.to(kCpu)}, {}, 2}, {{expected_dx, expected_dw}, {}, 2}));
  }
}
