#include "ops/loss/cross_entropy.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "autograd/node.h"
#include "core/allocator.h"
#include "core/cpu_isa.h"
#include "core/error.h"
#include "ops/elementwise/scale.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Targets of which about every third is ignored.
Tensor some_targets(const Shape& shape, std::int64_t bound, DType dtype) {
  Tensor targets = empty(shape, DType::kInt64);
  for (std::int64_t i = 0; i < targets.numel(); ++i) {
    targets.data<std::int64_t>()[i] = i % 3 == 1 ? kIgnoredTarget : i * 7 % bound;
  }
  return targets.to(dtype);
}

std::vector<double> losses_of(const Tensor& logits, const Tensor& targets) {
  const std::int64_t width = logits.dim(-1);
  const Tensor ids = targets.to(DType::kInt64);
  std::vector<double> losses;
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    const std::int64_t target = ids.data<std::int64_t>()[i];
    if (target == kIgnoredTarget) {
      losses.push_back(0.0);
      continue;
    }
    const double* row = logits.data<double>() + i * width;
    double top = row[0], sum = 0.0;
    for (std::int64_t j = 0; j < width; ++j) top = std::max(top, row[j]);
    for (std::int64_t j = 0; j < width; ++j) sum += std::exp(row[j] - top);
    losses.push_back(std::log(sum) + top - row[target]);
  }
  return losses;
}

std::vector<Tensor> cross_entropy_reference(const std::vector<Tensor>& in, double normalizer) {
  double sum = 0.0;
  for (const double loss : losses_of(in[0], in[1])) sum += loss;
  return {full({}, sum / normalizer, DType::kFloat64)};
}

}  // namespace

OP_CASES(cross_entropy) {
  struct Sizes {
    Shape targets;
    std::int64_t width;
  };
  OpCases cases;
  for (const Sizes& s :
       {Sizes{{}, 3}, Sizes{{1}, 1}, Sizes{{0}, 4}, Sizes{{5}, 7}, Sizes{{2, 3}, 33}, Sizes{{70}, 17}}) {
    std::vector<std::int64_t> extents(s.targets.extents().begin(), s.targets.extents().end());
    extents.push_back(s.width);
    const Tensor logits = uniform(Shape(std::span<const std::int64_t>(extents)), -4.0, 4.0);
    for (const bool consumed : {false, true}) {
      const DType dtype = consumed ? DType::kInt32 : DType::kInt64;
      cases.push_back(
          {.name = to_string(logits.shape()) + (consumed ? " consumed" : " kept"),
           .inputs = {logits, some_targets(s.targets, s.width, dtype)},
           .run =
               [=](const Inputs& in) {
                 // The result of an op is consumed, a leaf is not.
                 const Variable x = consumed ? scale(in[0], 1.0) : in[0];
                 return Outputs{cross_entropy(x, in[1].value(), {.normalizer = 3.0})};
               },
           .reference = [](const std::vector<Tensor>& in) { return cross_entropy_reference(in, 3.0); }});
    }
  }
  return cases;
}

TEST_CASE("ops: cross_entropy writes the gradient over the logits, but not over those to be kept") {
  const Tensor values = normal({4, 5}).to(DType::kFloat32), targets = some_targets({4}, 5, DType::kInt64);
  const Variable leaf(values.clone(), true);
  cross_entropy(leaf, targets).backward();
  const auto same = [](const Tensor& a, const Tensor& b) {
    for (std::int64_t i = 0; i < a.numel(); ++i) {
      if (a.data<float>()[i] != b.data<float>()[i]) return false;
    }
    return true;
  };
  CHECK(same(leaf.value(), values));

  const Variable input(values.clone(), true);
  const Variable consumed = scale(input, 1.0);
  cross_entropy(consumed, targets).backward();
  CHECK(same(consumed.value(), leaf.grad()));
  CHECK(same(input.grad(), leaf.grad()));

  const Variable kept = scale(Variable(values.clone(), true), 1.0);
  cross_entropy(kept, targets, {.keep_logits = true}).backward();
  CHECK(same(kept.value(), values));

  const NoGrad no_grad;
  const Variable unrecorded = scale(input, 1.0);
  cross_entropy(unrecorded, targets);
  CHECK(same(unrecorded.value(), values));
}

TEST_CASE("ops: cross_entropy needs no second copy of the logits") {
  const Variable x = scale(Variable(zeros({512, 1024}, DType::kFloat32), true), 1.0);
  const Tensor targets = zeros({512}, DType::kInt64);
  const auto in_use = [] { return CpuAllocator::instance().stats().total; };
  CpuAllocator::instance().reset_peaks();
  const std::int64_t before = in_use().current_bytes;
  const Variable loss = cross_entropy(x, targets);
  CHECK(in_use().peak_bytes - before <= 4 * 512 * static_cast<std::int64_t>(sizeof(float)));
  loss.backward();
  // The backward pass of scale makes a gradient of the logits' size, of which one is left as the leaf's.
  CHECK(in_use().peak_bytes - before <= 512 * 1024 * static_cast<std::int64_t>(sizeof(float)) + 16384);
}

TEST_CASE("ops: cross_entropy is right for huge logits") {
  const float huge = 3e38F, inf = std::numeric_limits<float>::infinity();
  const Tensor logits =
      tensor_of<float>({4, 3}, {huge, -huge, 0, 1000, 1000, -inf, -5e4F, -5e4F, -5e4F, 0, 88, 0});
  const Tensor losses = token_losses(logits, tensor_of<std::int32_t>({4}, {0, 1, 2, 0}));
  CHECK(losses.data<float>()[0] == 0.0F);
  CHECK(losses.data<float>()[1] == Approx(std::log(2.0)).epsilon(1e-7));
  CHECK(losses.data<float>()[2] == Approx(std::log(3.0)).epsilon(1e-7));
  CHECK(losses.data<float>()[3] == Approx(88.0).epsilon(1e-7));
  const Variable x(logits, true);
  cross_entropy(x, tensor_of<std::int32_t>({4}, {0, 1, 2, 0})).backward();
  CHECK(x.grad().all_finite());
  CHECK(x.grad().data<float>()[0] == 0.0F);
  CHECK(x.grad().data<float>()[3] == 0.5F);
  // A result that is not a number must come out as such, for the guard against non-finite losses.
  const Tensor broken = tensor_of<float>({2, 2}, {std::nanf(""), 0, inf, 0});
  const Tensor bad = token_losses(broken, tensor_of<std::int64_t>({2}, {1, 1}));
  CHECK(std::isnan(bad.data<float>()[0]));
  CHECK(!std::isfinite(bad.data<float>()[1]));
}

TEST_CASE("ops: cross_entropy is right for long rows of rising, falling and masked logits", "[every_isa]") {
  constexpr std::int64_t kWidth = 5000;  // several blocks of a row's sum, the last of them not whole
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor logits = empty({4, kWidth}, DType::kFloat32);
  const auto row = [&](std::int64_t i) { return logits.data<float>() + i * kWidth; };
  for (std::int64_t j = 0; j < kWidth; ++j) {
    row(0)[j] = static_cast<float>(j) * 0.05F - 100;  // a new maximum in every block
    row(1)[j] = 100 - static_cast<float>(j) * 0.05F;
    row(2)[j] = j < 2100 || j % 3 == 0 ? -inf : std::sin(static_cast<float>(j));
    row(3)[j] = j == 4999 ? 60.0F : -60.0F + static_cast<float>(j % 7);
  }
  const Tensor targets = tensor_of<std::int64_t>({4}, {4321, 77, 4000, 3});
  const std::vector<double> expected = losses_of(logits.to(DType::kFloat64), targets);
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    const Tensor losses = token_losses(logits, targets);
    INFO(cpu_isa_name(isa));
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(losses.data<float>()[i] == Approx(expected[i]).epsilon(2e-7));
  }
  // Nothing but masked logits, and one that is not a number behind them.
  const Tensor broken = full({2, kWidth}, -inf, DType::kFloat32);
  broken.data<float>()[kWidth + 4500] = std::nanf("");
  const Tensor bad = token_losses(broken, tensor_of<std::int64_t>({2}, {1, 1}));
  CHECK(std::isnan(bad.data<float>()[0]));
  CHECK(std::isnan(bad.data<float>()[1]));
}

TEST_CASE("ops: token_losses gives each row its own loss") {
  const Tensor logits = uniform({2, 3, 2050}, -3.0, 3.0), targets = some_targets({2, 3}, 2050, DType::kInt64);
  const Tensor losses = token_losses(logits, targets);
  const std::vector<double> expected = losses_of(logits, targets);
  REQUIRE(losses.shape() == targets.shape());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(losses.data<double>()[i] == Approx(expected[i]).epsilon(1e-12));
  }
  const Tensor rounded = token_losses(logits.to(DType::kFloat32), targets);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(rounded.data<float>()[i] == Approx(expected[i]).epsilon(1e-6));
  }
}

TEST_CASE("ops: cross_entropy refuses what does not fit") {
  const Variable logits(normal({2, 3, 5}));
  const auto targets = [](std::int64_t last) {
    return tensor_of<std::int64_t>({2, 3}, {0, 4, kIgnoredTarget, 1, last, 2});
  };
  CHECK_NOTHROW(cross_entropy(logits, targets(3)));
  CHECK_THROWS_WITH(
      cross_entropy(logits, targets(5)),
      "cross_entropy: targets: expected 0 to 4 or -100 (last axis of logits), found 5 at [1, 1]");
  CHECK_THROWS_AS(cross_entropy(logits, targets(-1)), ValueError);
  CHECK_THROWS_WITH(cross_entropy(logits, zeros({3, 2}, DType::kInt64)),
                    "cross_entropy: targets: expected [2, 3], as logits without the last axis, found [3, 2]");
  CHECK_THROWS_AS(cross_entropy(logits, normal({2, 3})), DTypeError);
  CHECK_THROWS_AS(cross_entropy(logits, Tensor()), ValueError);
  CHECK_THROWS_AS(cross_entropy(logits, targets(0), {.normalizer = 0.0}), ValueError);
  CHECK_THROWS_AS(cross_entropy(Variable(), targets(0)), ValueError);
  CHECK_THROWS_AS(cross_entropy(Variable(normal({})), zeros({}, DType::kInt64)), ShapeError);
  CHECK_THROWS_WITH(
      token_losses(logits.value(), targets(7)),
      "token_losses: targets: expected 0 to 4 or -100 (last axis of logits), found 7 at [1, 1]");
  CHECK_THROWS_AS(token_losses(Tensor(), targets(0)), ValueError);
}
