#include <catch2/catch.hpp>
#include <cstring>

#include "autograd/between_ops.h"
#include "autograd/gradcheck.h"
#include "autograd/node.h"
#include "autograd/recompute.h"
#include "core/allocator.h"
#include "core/error.h"
#include "core/random.h"
#include "ops/elementwise/scale.h"
#include "ops/norm/rms_norm.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

/// y = a * x, written in the test so that autograd is tested without any real op.
Variable times(const Variable& x, double a, int* calls = nullptr) {
  Tensor y = x.value().clone();
  y.scale(a);
  return record("times", y, {x}, [a, calls](const Tensor& dy) -> Grads {
    if (calls) ++*calls;
    Tensor dx = dy.clone();
    dx.scale(a);
    return {dx};
  });
}

Variable plus(const Variable& a, const Variable& b) {
  Tensor y = a.value().clone();
  y.add(b.value());
  return record("plus", y, {a, b}, [](const Tensor& dy) -> Grads { return {dy, dy}; });
}

Variable leaf(double value) {
  return Variable(full({2}, value, DType::kFloat32), true);
}
float first(const Tensor& tensor) {
  return tensor.data<float>()[0];
}
Tensor ones2() {
  return full({2}, 1, DType::kFloat32);
}

Outputs checkpointed_norms(const Inputs& in) {
  return recompute(
      [w = in[1]](const std::vector<Variable>& x) -> std::vector<Variable> {
        return {rms_norm(rms_norm(x[0], w, 1e-5), w, 1e-5), rms_norm(x[0], w, 1e-3)};
      },
      {in[0]});
}

}  // namespace

OP_CASES(checkpoint) {
  return {{.name = "two outputs and a captured parameter",
           .inputs = {normal({3, 5}), uniform({5}, 0.5, 1.5)},
           .run = checkpointed_norms,
           .reference = {}}};
}

TEST_CASE("autograd: a value used twice gets the sum of both gradients, once per node") {
  Variable x = leaf(1);
  int calls = 0;
  const Variable shared = times(x, 2, &calls);
  plus(times(shared, 3), times(shared, 5)).backward(ones2());
  CHECK(first(x.grad()) == 16);
  CHECK(calls == 1);
}

TEST_CASE("autograd: a residual hands the same gradient to both sides without mixing them up") {
  Variable x = leaf(1), y = leaf(1);
  plus(x, plus(x, y)).backward(ones2());
  CHECK(first(x.grad()) == 2);
  CHECK(first(y.grad()) == 1);
}

TEST_CASE("autograd: gradients accumulate until they are cleared") {
  Variable x = leaf(1);
  times(x, 2).backward(ones2());
  times(x, 3).backward(ones2());
  CHECK(first(x.grad()) == 5);
  x.zero_grad();
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("autograd: a bfloat16 leaf gathers its gradient in float32") {
  Variable x(full({2}, 1, DType::kBFloat16), true);
  for (int i = 0; i < 300; ++i) times(x, 1).backward(full({2}, 1, DType::kBFloat16));
  CHECK(x.grad().dtype() == DType::kFloat32);
  CHECK(first(x.grad()) == 300);  // bfloat16 sums of ones stop at 256
}

TEST_CASE("autograd: hooks run once per backward pass, after the last contribution") {
  Variable x = leaf(1);
  std::vector<float> seen;
  x.on_gradient([&](Variable& v) { seen.push_back(first(v.grad())); });
  const Variable twice = plus(times(x, 2), times(x, 3));
  twice.backward(ones2());
  REQUIRE(seen == std::vector<float>{5});
  times(x, 1).backward(ones2());
  CHECK(seen == std::vector<float>{5, 6});
}

TEST_CASE("autograd: a hook waits for recomputed segments, and for what is outside of them") {
  Variable w = leaf(1), x = leaf(1);
  int hooks = 0;
  float last_seen = 0;
  w.on_gradient([&](Variable& v) {
    ++hooks;
    last_seen = first(v.grad());
  });
  const auto reads_w = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
    return {plus(times(in[0], 2), times(w, 3))};
  };
  const auto nested = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
    return {plus(recompute(reads_w, in, nullptr)[0], times(w, 10))};
  };
  SECTION("two segments") {
    const Variable y = recompute(reads_w, recompute(reads_w, {x}, nullptr), nullptr)[0];
    y.backward(ones2());
    CHECK(first(w.grad()) == 3 + 2 * 3);
    CHECK(first(x.grad()) == 4);
  }
  SECTION("a segment between uses outside, before and after it") {
    const Variable y = plus(recompute(reads_w, {times(w, 5)}, nullptr)[0], times(w, 7));
    y.backward(ones2());
    CHECK(first(w.grad()) == 2 * 5 + 3 + 7);
  }
  SECTION("a segment within a segment") {
    recompute(nested, {x}, nullptr)[0].backward(ones2());
    CHECK(first(w.grad()) == 3 + 10);
  }
  SECTION("a segment whose input the leaf is, too") {
    recompute(reads_w, {w}, nullptr)[0].backward(ones2());
    CHECK(first(w.grad()) == 2 + 3);
  }
  SECTION("a segment of no input that requires a gradient") {
    recompute(nested, {Variable(ones2())}, nullptr)[0].backward(ones2());
    CHECK(first(w.grad()) == 3 + 10);
  }
  CHECK(hooks == 1);
  CHECK(last_seen == first(w.grad()));
}

TEST_CASE("autograd: gradients that are slices of one buffer are added to, and not taken for each other") {
  const Tensor buffer = full({2, 2}, NAN, DType::kFloat32);
  Variable a = leaf(1), b = leaf(1);
  a.keep_gradient_in(buffer.select(0));
  b.keep_gradient_in(buffer.select(1));
  a.accumulate_grad(full({2}, 1.0, DType::kFloat32));
  b.accumulate_grad(full({2}, 2.0, DType::kFloat32));
  a.accumulate_grad(b.grad());
  CHECK(first(a.grad()) == 3);
  CHECK(first(b.grad()) == 2);
}

TEST_CASE("autograd: nothing is recorded inside NoGrad") {
  Variable x = leaf(1);
  {
    const NoGrad no_grad;
    CHECK_FALSE(times(x, 2).requires_grad());
  }
  CHECK(times(x, 2).requires_grad());
  CHECK_FALSE(times(x, 2).detach().requires_grad());
}

TEST_CASE("autograd: what was saved is released as the pass goes, and a second pass is refused") {
  Variable x = leaf(1);
  auto saved = std::make_shared<int>(0);
  const std::weak_ptr<int> watch = saved;
  const Variable y =
      record("keeps", x.value().clone(), {x}, [saved](const Tensor& dy) -> Grads { return {dy}; });
  saved.reset();
  CHECK_FALSE(watch.expired());
  y.backward(ones2());
  CHECK(watch.expired());
  CHECK_THROWS_WITH(y.backward(ones2()),
                    Catch::Contains("keeps: backward() has already run through this graph"));
}

TEST_CASE("autograd: a value that no backward pass reads is freed with the last handle to it") {
  const auto bytes = [] { return CpuAllocator::instance().stats().total.current_bytes; };
  const Variable x(full({1 << 16}, 3, DType::kFloat32), true);
  Variable y = times(x, 2);
  const std::int64_t with_one = bytes();
  y = times(y, 2);
  y = plus(y, times(y, 2));
  CHECK(bytes() == with_one);
  y.backward(full({1 << 16}, 1, DType::kFloat32));
  CHECK(first(x.grad()) == 12);
}

TEST_CASE("autograd: refusals") {
  Variable x = leaf(1);
  CHECK_THROWS_AS(times(x, 2).backward(), ShapeError);  // not a scalar
  CHECK_THROWS_AS(times(x, 2).backward(zeros({3}, DType::kFloat32)), ShapeError);
  CHECK_THROWS_AS(times(Variable(ones2()), 2).backward(ones2()), ValueError);  // nothing to differentiate
  CHECK_THROWS_AS(Variable(zeros({2}, DType::kInt32), true), DTypeError);
}

TEST_CASE("autograd: a long chain of ops is walked and destroyed without deep recursion", "[one_isa]") {
#ifdef MOH_SANITIZED  // its frames are several times as large, and it takes its time
  constexpr int kOps = 50000;
#else
  constexpr int kOps = 200000;
#endif
  Variable x = leaf(1);
  Variable y = x, z = x;
  for (int i = 0; i < kOps; ++i) {
    y = times(y, 1);
    z = times(z, 1);  // never walked back
  }
  y.backward(ones2());
  CHECK(first(x.grad()) == 1);
}

TEST_CASE("autograd: a recomputed segment draws the same numbers twice, and knows that it runs again") {
  Generator generator(7, 3);
  std::vector<std::uint64_t> streams;
  std::vector<bool> again, followed;
  Variable x = leaf(1);
  const auto segment = [&](const std::vector<Variable>& in) -> std::vector<Variable> {
    streams.push_back(generator.next().stream);
    again.push_back(recomputing());
    followed.push_back(backward_follows());
    return {times(in[0], 2)};
  };
  const std::vector<Variable> y = recompute(segment, {x}, &generator);
  const std::uint64_t after = generator.next().stream;
  y[0].backward(ones2());
  REQUIRE(streams.size() == 2);
  CHECK(streams[0] == streams[1]);
  CHECK(again == std::vector<bool>{false, true});
  CHECK(generator.next().stream == after + 1);  // the backward pass left the generator where it was
  CHECK_FALSE(recomputing());
  CHECK(first(x.grad()) == 2);
  CHECK(followed == std::vector<bool>{true, true});

  const NoGrad no_grad;
  recompute(segment, {x}, &generator);
  CHECK_FALSE(followed.back());
  CHECK_FALSE(backward_follows());
  const FirstRunScope first_run;
  recompute(segment, {x}, &generator);
  CHECK(followed.back());
  CHECK(backward_follows());
}

TEST_CASE("autograd: a gradient with a place of its own is gathered there") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Variable x(full({3}, 2.0, dtype), true);
    const Tensor place = full({3}, NAN, DType::kFloat32);
    x.keep_gradient_in(place);
    for (int pass = 0; pass < 2; ++pass) {
      x.zero_grad();
      CHECK_FALSE(x.grad().defined());
      x.accumulate_grad(full({3}, 1.5, dtype));  // overwrites what was there
      x.accumulate_grad(full({3}, 0.25, DType::kFloat32));
      CHECK(x.grad().shares_storage_with(place));
      CHECK(place.data<float>()[2] == 1.75F);
    }
    CHECK_THROWS_AS(x.keep_gradient_in(zeros({4}, DType::kFloat32)), InternalError);
  }
}

TEST_CASE("autograd: between ops is after each of them, and not while one waits for what it reads") {
  const Variable x(full({3}, 2.0, DType::kFloat32), true);
  int calls = 0;
  {
    const BetweenOps between([&] { ++calls; });
    const Variable y = scale(x, 2);
    CHECK(calls == 1);
    {
      const NoGrad no_grad;
      scale(x, 2);
      CHECK(calls == 2);
    }
    const Variable z = scale(y, 3);
    y.value().release_until_read([&] { return scale(x, 2).value(); });
    calls = 0;
    CHECK(y.value().data<float>()[0] == 4.0F);
    CHECK(calls == 0);
    {
      int inner = 0;
      const BetweenOps innermost([&] { ++inner; });
      scale(x, 2);
      CHECK(inner == 1);
    }
    CHECK(calls == 1);
    calls = 0;
    z.backward(full({3}, 1.0, DType::kFloat32));
    CHECK(calls == 2);
    CHECK(x.grad().data<float>()[0] == 6.0F);
  }
  scale(x, 2);
  CHECK(calls == 2);
}

TEST_CASE("autograd: the place of a gradient is asked for when its first contribution comes") {
  const Variable x(full({3}, 2.0, DType::kFloat32), true);
  Variable leaf = x;
  std::vector<Tensor> places;
  leaf.keep_gradient_in([&] { return places.emplace_back(full({3}, NAN, DType::kFloat32)); });
  for (int pass = 0; pass < 2; ++pass) {
    leaf.zero_grad();
    CHECK(std::ssize(places) == pass);
    scale(x, 1.5).backward(full({3}, 1.0, DType::kFloat32));
    scale(x, 2.5).backward(full({3}, 1.0, DType::kFloat32));
    REQUIRE(std::ssize(places) == pass + 1);
    CHECK(x.grad().shares_storage_with(places.back()));
    CHECK(places.back().data<float>()[2] == 4.0F);
  }
  leaf.zero_grad();
  leaf.keep_gradient_in(std::function<Tensor()>());
  CHECK(leaf.begin_grad().shares_storage_with(leaf.grad()));
  CHECK(places.size() == 2);
}

TEST_CASE("autograd: gradcheck notices a wrong backward pass that a sum of outputs would hide") {
  // Rows are divided by their sum, so the gradient of the sum of all outputs is zero; the wrong backward
  // returns zero.
  const auto wrong = [](const std::vector<Variable>& in) -> std::vector<Variable> {
    const double* x = in[0].value().data<double>();
    Tensor y = tensor_of<double>({2}, {x[0] / (x[0] + x[1]), x[1] / (x[0] + x[1])});
    return {record("wrong", y, {in[0]}, [](const Tensor& dy) -> Grads { return {zeros_like(dy)}; })};
  };
  CHECK_FALSE(gradcheck(wrong, {uniform({2}, 1, 2)}).passed);
}

TEST_CASE("autograd: gradcheck along directions notices one wrong element of many") {
  constexpr std::int64_t kElements = 1000;
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{7}, kElements - 1}) {
    const auto halves_of_squares = [wrong](const std::vector<Variable>& in) -> std::vector<Variable> {
      const Tensor x = in[0].value(), y = empty_like(x);
      for (std::int64_t i = 0; i < kElements; ++i)
        y.data<double>()[i] = x.data<double>()[i] * x.data<double>()[i] / 2;
      return {record("squares", y, {in[0]}, [x, wrong](const Tensor& dy) -> Grads {
        const Tensor dx = empty_like(dy);
        for (std::int64_t i = 0; i < kElements; ++i)
          dx.data<double>()[i] = dy.data<double>()[i] * x.data<double>()[i] * (i == wrong ? 1 + 1e-3 : 1);
        return {dx};
      })};
    };
    for (const std::size_t directions : {std::size_t{0}, std::size_t{1}, std::size_t{64}}) {
      INFO("element " << wrong << ", " << directions << " directions");
      const GradCheckReport report =
          gradcheck(halves_of_squares, {uniform({kElements}, 1, 2)}, {.directions = directions});
      INFO(report.message);
      CHECK(report.passed == (wrong < 0));
      if (wrong >= 0 && directions == 64)
        CHECK(report.message.find("element " + std::to_string(wrong % 64) + " and") != std::string::npos);
    }
  }
}
