#include "ops/conv/conv2d.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/elementwise/add.h"
#include "ops/linalg/linear.h"
#include "ops/shape/patchify.h"
#include "ops/shape/reshape.h"
#include "tests/ops/conv/reference.h"
#include "tests/ops/op_run.h"

using namespace moh;
using namespace moh::test;

OP_CASES(conv2d) {
  OpCases cases;
  for (const ConvCase& conv : std::vector<ConvCase>{
           {{1, 1, 1, 1}, {2, 1, 1, 1}},
           {{2, 5, 4, 3}, {5, 3, 1, 1}},                                // one product
           {{2, 5, 4, 3}, {5, 3, 1, 1}, {.stride = 2}},                 // pixels are left out
           {{1, 3, 2, 2}, {3, 2, 1, 1}, {.padding = 1}},                // only the bias at the edge
           {{1, 6, 5, 2}, {3, 2, 3, 3}, {}, false},                     //
           {{2, 9, 10, 3}, {6, 3, 7, 7}, {.stride = 4, .padding = 3}},  // the first patches of TransNeXt
           {{2, 5, 6, 4}, {9, 4, 3, 3}, {.stride = 2, .padding = 1}},   // those between its stages
           {{1, 8, 8, 2}, {4, 2, 4, 4}, {.stride = 4}, false},          // a ViT's: no overlap
           {{1, 2, 3, 2}, {3, 2, 5, 5}, {.padding = 2}},                // larger than the image
           {{1, 2, 1, 1}, {2, 1, 2, 3}, {.padding = 4}},                // some places see padding alone
           {{2, 7, 4, 2},
            {3, 2, 3, 2},
            {.stride = {3, 1}, .padding = {0, 1}}},                           // what is left over is not seen
           {{1, 5, 4, 6}, {4, 3, 3, 3}, {.padding = 1, .groups = 2}},         //
           {{1, 4, 4, 3}, {6, 1, 3, 3}, {.padding = 1, .groups = 3}, false},  // two outputs of each channel
           {{0, 5, 6, 4}, {3, 4, 3, 3}},
           // few outputs, or few channels, whose gradient has few: strips, their ends, parts of vectors
           {{1, 3, 19, 5}, {1, 5, 3, 3}, {.padding = 1}},
           {{1, 4, 17, 9}, {2, 9, 3, 3}, {}, false},
           {{2, 3, 9, 21}, {3, 21, 3, 3}, {.padding = 1}},
           {{1, 5, 16, 3}, {4, 3, 3, 5}, {.stride = 2, .padding = 2}}})
    cases.push_back(conv_case(conv));
  return cases;
}

namespace {

Tensor random_floats(const Shape& shape, std::uint64_t seed) {
  return normal(shape, seed).to(DType::kFloat32);
}

/// Result and gradients of a convolution.
std::vector<Tensor> conv_and_gradients(const Shape& x_shape, const Shape& w_shape,
                                       const Conv2dOptions& options) {
  const Variable x(random_floats(x_shape, 1), true), w(random_floats(w_shape, 2), true),
      b(random_floats({w_shape[0]}, 3), true);
  const Variable y = conv2d(x, w, b, options);
  y.backward(random_floats(y.shape(), 4));
  return {y.value(), x.grad(), w.grad(), b.grad()};
}

}  // namespace

TEST_CASE("ops: conv2d adds up what hand and pencil do") {
  const Tensor image = tensor_of<float>({1, 3, 3, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const std::int64_t outputs :
       {1, 2}) {  // alone it is depthwise; with a second one, of zeros, it is not
    INFO(outputs);
    const Tensor kernel = zeros({outputs, 1, 2, 2}, DType::kFloat32);
    kernel.slice(0, 1).copy_from(tensor_of<float>({1, 1, 2, 2}, {1, 10, 100, 1000}));
    const Variable x(image, true), w(kernel, true), b(full({outputs}, 0.5, DType::kFloat32), true);
    const auto of_first = [outputs](const Tensor& y) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < y.numel(); i += outputs) values.push_back(y.data<float>()[i]);
      return values;
    };
    const Variable y = conv2d(x, w, b);
    CHECK(of_first(y.value()) == std::vector<float>{5421.5F, 6532.5F, 8754.5F, 9865.5F});
    const Variable padded = conv2d(x, w, {}, {.stride = 2, .padding = 1});
    CHECK(of_first(padded.value()) == std::vector<float>{1000, 3200, 7040, 9865});

    const Tensor dy = zeros(y.shape(), DType::kFloat32);
    dy.data<float>()[0] = 1;
    dy.data<float>()[3 * outputs] = 2;
    y.backward(dy);
    const auto starts_with = [](const Tensor& found, const std::vector<float>& expected) {
      return std::equal(expected.begin(), expected.end(), found.data<float>());
    };
    CHECK(starts_with(w.grad(), {11, 14, 20, 23}));  // what each place of the kernel saw, times dy
    CHECK(starts_with(x.grad(), {1, 10, 0, 100, 1002, 20, 0, 200, 2000}));
    CHECK(starts_with(b.grad(), {3}));
  }
}

TEST_CASE("ops: patches side by side are patchify and linear") {
  const Tensor images = random_floats({2, 3, 8, 12}, 1), w = random_floats({5, 3, 4, 4}, 2),
               b = random_floats({5}, 3);
  const Tensor pixels = empty({2, 8, 12, 3}, DType::kFloat32);
  for (std::int64_t i = 0; i < pixels.numel(); ++i) {
    const std::int64_t c = i % 3, at = i / 3 % 96, n = i / 288;
    pixels.data<float>()[i] = images.data<float>()[(n * 3 + c) * 96 + at];
  }
  const Variable y = conv2d(Variable(pixels), Variable(w), Variable(b), {.stride = 4});
  const Variable expected = linear(patchify(Variable(images), 4, PatchOrder::kChannelRowColumn),
                                   reshape(Variable(w), {5, 48}), Variable(b));
  check_close(y.value().reshape({2, 6, 5}), expected.value(), 1e-5, "patches");
}

TEST_CASE("ops: conv2d gives the same bits with any number of threads, over many blocks of patches") {
  const int before = num_threads();
  struct Case {
    Shape x, w;
    Conv2dOptions options;
  };
  for (const Case& c : {Case{{3, 60, 61, 3}, {72, 3, 7, 7}, {.stride = 4, .padding = 3}},
                        Case{{5, 56, 56, 40}, {36, 20, 3, 3}, {.stride = {1, 2}, .padding = 1, .groups = 2}},
                        Case{{3, 30, 31, 50}, {50, 1, 3, 3}, {.padding = 1, .groups = 50}},
                        Case{{2, 30, 31, 50}, {3, 50, 3, 3}, {.padding = 1}},
                        Case{{2, 31, 30, 70}, {50, 70, 3, 3}, {.padding = 1}}}) {
    set_num_threads(1);
    const std::vector<Tensor> one = conv_and_gradients(c.x, c.w, c.options);
    for (const int threads : {2, 3}) {
      set_num_threads(threads);
      const std::vector<Tensor> several = conv_and_gradients(c.x, c.w, c.options);
      for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(std::memcmp(one[i].raw(), several[i].raw(), one[i].bytes()) == 0);
    }
  }
  set_num_threads(before);
}

TEST_CASE("ops: blocks of patches meet where they should") {
  // About five blocks; the sums of double are compared with those of each image alone, which is one.
  const Variable w(normal({16, 24, 3, 3}, 2), true), lone_w(w.value(), true);
  const Variable x(normal({3, 40, 40, 24}, 1), true);
  const Variable y = conv2d(x, w, {}, {.padding = 1});
  const Tensor dy = normal(y.shape(), 3);
  y.backward(dy);
  for (std::int64_t n = 0; n < 3; ++n) {
    const Variable lone(x.value().slice(n, n + 1).clone(), true);
    const Variable lone_y = conv2d(lone, lone_w, {}, {.padding = 1});
    lone_y.backward(dy.slice(n, n + 1));
    check_close(y.value().slice(n, n + 1), lone_y.value(), 1e-10, "y");
    check_close(x.grad().slice(n, n + 1), lone.grad(), 1e-10, "dx");
  }
  check_close(w.grad(), lone_w.grad(), 1e-9, "dw");
}

TEST_CASE("ops: conv2d's patches take bounded memory, however many there are") {
  const Variable x(random_floats({4, 112, 112, 16}, 1), true), w(random_floats({8, 16, 7, 7}, 2), true);
  CpuAllocator& allocator = CpuAllocator::instance();
  const auto workspace = [&](const auto& work) {
    allocator.reset_peaks();
    const auto count = [&] { return allocator.stats().of(MemoryPurpose::kWorkspace); };
    const std::int64_t before = count().current_bytes;
    work();
    return count().peak_bytes - before;
  };
  Variable y;
  constexpr std::int64_t kMost = std::int64_t{20} << 20;  // of 157 MB of patches
  CHECK(workspace([&] { y = conv2d(x, w, {}, {.padding = 3}); }) < kMost);
  CHECK(workspace([&] { y.backward(random_floats(y.shape(), 3)); }) < kMost);
}

TEST_CASE("ops: conv2d computes the gradients that are asked for, that of a weight in the type of its sums") {
  const auto leaf = [](const Shape& shape, bool grad) {
    return Variable(normal(shape).to(DType::kBFloat16), grad);
  };
  for (const std::int64_t groups : {1, 4}) {
    const Variable x = leaf({1, 5, 5, 4}, false), w = leaf({4, 4 / groups, 3, 3}, true), b = leaf({4}, false);
    const Variable y = conv2d(x, w, b, {.padding = 1, .groups = groups});
    CHECK(y.dtype() == DType::kBFloat16);
    y.backward(full(y.shape(), 1.0, DType::kBFloat16));
    CHECK(w.grad().dtype() == DType::kFloat32);
    CHECK(w.grad().shape() == w.shape());
    CHECK_FALSE(x.grad().defined());
    CHECK_FALSE(b.grad().defined());
  }
}

TEST_CASE("ops: a weight that is computed is one that conv2d gives a gradient to") {
  for (const std::int64_t groups : {1, 4}) {
    for (const std::int64_t side : {1, 3}) {
      const Shape shape = {4, 4 / groups, side, side};
      const Variable x(normal({1, 5, 5, 4}, 1).to(DType::kBFloat16)),
          w(normal(shape, 2).to(DType::kBFloat16), true), b(normal({4}, 3).to(DType::kBFloat16), true);
      const Conv2dOptions options{.groups = groups};
      const Variable y = conv2d(x, add(w, w), add(b, b), options);
      y.backward(full(y.shape(), 1.0, DType::kBFloat16));
      const Variable same_w(w.value(), true), same_b(b.value(), true);
      conv2d(x, same_w, same_b, options).backward(full(y.shape(), 1.0, DType::kBFloat16));
      same_w.grad().scale(2);
      same_b.grad().scale(2);
      check_close(w.grad(), same_w.grad(), 0.5, "dw");  // rounded on the way
      check_close(b.grad(), same_b.grad(), 0.5, "db");
    }
  }
}

TEST_CASE("ops: conv2d refuses what does not fit") {
  const auto zeros_of = [](const Shape& shape) { return Variable(zeros(shape, DType::kFloat32)); };
  const Variable x = zeros_of({2, 4, 5, 6}), w = zeros_of({4, 6, 3, 3});
  CHECK_THROWS_WITH(conv2d(zeros_of({2, 20, 6}), w), "conv2d: x: expected rank 4, found [2, 20, 6]");
  CHECK_THROWS_WITH(conv2d(x, zeros_of({4, 54})), "conv2d: w: expected rank 4, found [4, 54]");
  CHECK_THROWS_WITH(
      conv2d(x, zeros_of({4, 3, 3, 3})),
      "conv2d: w: expected [O, 6, kh, kw] (channels of x [2, 4, 5, 6] / groups 1), found [4, 3, 3, 3]");
  CHECK_THROWS_WITH(conv2d(x, zeros_of({4, 1, 3, 3}), {}, {.groups = 4}),
                    "conv2d: channels of x: expected a positive multiple of groups (4), found 6");
  CHECK_THROWS_WITH(conv2d(x, zeros_of({4, 2, 3, 3}), {}, {.groups = 3}),
                    "conv2d: first axis of w: expected a positive multiple of groups (3), found 4");
  CHECK_THROWS_WITH(conv2d(x, w, zeros_of({5})),
                    "conv2d: b: expected shape [4] (first axis of w), found [5]");
  CHECK_THROWS_WITH(
      conv2d(x, zeros_of({4, 6, 7, 3}), {}, {.padding = 1}),
      "conv2d: x's height: expected 7 or more with padding, for one position of the kernel, found 4 + 2 * 1");
  CHECK_THROWS_WITH(conv2d(x, zeros_of({4, 6, 3, 0})), "conv2d: w's width: expected 1 or more, found 0");
  CHECK_THROWS_AS(conv2d(x, w, {}, {.stride = {1, 0}}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, {}, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(conv2d(x, w, {}, {.groups = 0}), ValueError);
  CHECK_THROWS_WITH(conv2d(x, w, {}, {.padding = {1, 1 << 30}}),
                    "conv2d: x's width: expected at most 2^31 - 1 with padding, found 5 + 2 * 1073741824");
  CHECK_THROWS_AS(conv2d(x, Variable(w.value().to(DType::kBFloat16))), DTypeError);
  CHECK_THROWS_AS(conv2d(Variable(zeros(x.shape(), DType::kInt32)), w), DTypeError);
}
