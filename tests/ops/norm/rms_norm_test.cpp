#include "ops/norm/rms_norm.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "ops/elementwise/add.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kRmsNormEps = 1e-5;
// More rows than the backward kernel has blocks on the simulated GPU, each for more than one warp: shared
// memory is used again.
const Shape rows_of_several_warps{20, 270};

std::vector<Tensor> rms_norm_reference(const std::vector<Tensor>& in) {
  const std::int64_t width = in[0].dim(-1), rows = in[0].numel() / std::max<std::int64_t>(width, 1);
  Tensor y = empty_like(in[0]);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double* x = in[0].data<double>() + i * width;
    double squares = 0;
    for (std::int64_t j = 0; j < width; ++j) squares += x[j] * x[j];
    for (std::int64_t j = 0; j < width; ++j) {
      y.data<double>()[i * width + j] =
          x[j] / std::sqrt(squares / width + kRmsNormEps) * in[1].data<double>()[j];
    }
  }
  return {y};
}

}  // namespace

OP_CASES(rms_norm) {
  OpCases cases;
  for (const Shape& shape : {Shape{4}, Shape{1, 1}, Shape{0, 4}, Shape{3, 7}, Shape{2, 4, 32}, Shape{70, 65},
                             rows_of_several_warps}) {
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape), uniform({shape[-1]}, 0.5, 1.5)},
                     .run = [](const Inputs& in) { return Outputs{rms_norm(in[0], in[1], kRmsNormEps)}; },
                     .reference = rms_norm_reference});
    const Tensor w = uniform({shape[-1]}, 0.5, 1.5);
    cases.push_back(
        {.name = to_string(shape) + ", frozen weight",
         .inputs = {normal(shape)},
         .run =
             [w](const Inputs& in) {
               const Variable frozen(w.to(in[0].dtype()).to(in[0].device()));
               return Outputs{rms_norm(in[0], frozen, kRmsNormEps)};
             },
         .reference =
             [w](const std::vector<Tensor>& in) {
               return rms_norm_reference({in[0], w});
             },
         .gradient_scale = shape[-1] > 1 ? 1e-6 : 4.0});  // of one element: the difference of two w dy / |x|
  }
  return cases;
}

OP_CASES(add_rms_norm) {
  OpCases cases;
  for (const Shape& shape : {Shape{4}, Shape{1, 1}, Shape{0, 4}, Shape{3, 7}, Shape{2, 4, 32}, Shape{70, 65},
                             rows_of_several_warps}) {
    const auto sum_and_norm = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
      const Tensor sum = in[0].clone();
      sum.add(in[1]);
      return {sum, rms_norm_reference({sum, in[2]}).front()};
    };
    const auto both = [](const Inputs& in) {
      const AddedAndNormed result = add_rms_norm(in[0], in[1], in[2], kRmsNormEps);
      return Outputs{result.sum, result.normed};
    };
    cases.push_back({.name = to_string(shape),
                     .inputs = {normal(shape, 1), normal(shape, 2), uniform({shape[-1]}, 0.5, 1.5)},
                     .run = both,
                     .reference = sum_and_norm});
    cases.push_back({.name = to_string(shape) + " without a branch",
                     .inputs = {normal(shape, 1), uniform({shape[-1]}, 0.5, 1.5)},
                     .run =
                         [](const Inputs& in) {
                           const AddedAndNormed result = add_rms_norm(in[0], {}, in[1], kRmsNormEps);
                           return Outputs{result.sum, result.normed};
                         },
                     .reference = [](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                       return {in[0], rms_norm_reference({in[0], in[1]}).front()};
                     }});
  }
  return cases;
}

TEST_CASE("ops: a frozen weight leaves the gradients of the rest of add_rms_norm as they are") {
  const auto gradients = [](bool frozen) {
    const Variable x(normal({5, 37}, 1).to(DType::kFloat32), true);
    const Variable branch(normal({5, 37}, 2).to(DType::kFloat32), true);
    const Variable w(normal({37}, 3).to(DType::kFloat32), !frozen);
    const AddedAndNormed result = add_rms_norm(x, branch, w, kRmsNormEps);
    add(result.sum, result.normed).backward(normal({5, 37}, 4).to(DType::kFloat32));
    CHECK(w.grad().defined() == !frozen);
    return std::vector<Tensor>{x.grad(), branch.grad()};
  };
  const std::vector<Tensor> trained = gradients(false), frozen = gradients(true);
  for (std::size_t i = 0; i < trained.size(); ++i) {
    for (std::int64_t j = 0; j < trained[i].numel(); ++j)
      CHECK(frozen[i].data<float>()[j] == Approx(trained[i].data<float>()[j]).margin(1e-6));
  }
}

TEST_CASE("ops: add_rms_norm computes the bits of add and rms_norm, whichever of its results is used") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
      return Variable(normal(shape, seed).to(dtype), true);
    };
    const Variable x = leaf({5, 37}, 1), branch = leaf({5, 37}, 2), w = leaf({37}, 3);
    const AddedAndNormed found = add_rms_norm(x, branch, w, kRmsNormEps);
    const Variable sum = add(x, branch), normed = rms_norm(sum, w, kRmsNormEps);
    const auto same_bits = [](const Tensor& a, const Tensor& b) {
      return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
    };
    CHECK(same_bits(found.sum.value(), sum.value()));
    CHECK(same_bits(found.normed.value(), normed.value()));
    const Tensor dy = normal({5, 37}, 4).to(dtype);
    normed.backward(dy);
    const Tensor dx = x.grad().clone(), dw = w.grad().clone();
    for (Variable v : {x, branch, w}) v.zero_grad();
    found.normed.backward(dy);
    CHECK(same_bits(x.grad(), dx));
    CHECK(same_bits(branch.grad(), dx));
    CHECK(same_bits(w.grad(), dw));
    for (Variable v : {x, branch, w}) v.zero_grad();
    add_rms_norm(x, branch, w, kRmsNormEps).sum.backward(dy);
    CHECK(same_bits(x.grad(), dy.to(DType::kFloat32)));
    CHECK_FALSE(w.grad().defined());
  }
}

TEST_CASE("ops: rms_norm refuses what does not fit") {
  const Variable x(normal({3, 7}));
  CHECK_THROWS_WITH(rms_norm(x, Variable(normal({8})), kRmsNormEps),
                    "rms_norm: w: expected shape [7] (last axis of x), found [8]");
  CHECK_THROWS_AS(rms_norm(x, Variable(normal({7}).to(DType::kFloat32)), kRmsNormEps), DTypeError);
  CHECK_THROWS_AS(rms_norm(x, Variable(normal({7})), 0.0), ValueError);
  CHECK_THROWS_AS(rms_norm(Variable(), Variable(normal({7})), kRmsNormEps), ValueError);
  CHECK_THROWS_WITH(add_rms_norm(x, Variable(normal({3, 8})), Variable(normal({7})), kRmsNormEps),
                    "add_rms_norm: branch: expected shape [3, 7] (as x), found [3, 8]");
}

TEST_CASE("ops: rms_norm does not round the gradient of a bfloat16 weight, which micro-batches add up") {
  const Variable x(normal({33, 24}).to(DType::kBFloat16)), w(full({24}, 1, DType::kBFloat16), true);
  rms_norm(x, w, kRmsNormEps).backward(normal({33, 24}, 2).to(DType::kBFloat16));
  const Tensor rounded = w.grad().to(DType::kBFloat16).to(DType::kFloat32);
  CHECK(std::memcmp(w.grad().raw(), rounded.raw(), rounded.bytes()) != 0);
}
