#include <catch2/catch.hpp>
#include <regex>

#include "autograd/node.h"
#include "core/error.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/linalg/matmul.h"
#include "ops/linalg/matmul_gelu.h"
#include "tests/cuda_sim/gemm_fixture.h"

// GELU and its gradient as epilogues of products.

using namespace moh;
using namespace moh::test;
using sim::Cublas;

namespace {

/// An MLP of one layer's products, with GELU in the tanh form, and its gradient.
struct GeluProducts {
  DType dtype = DType::kBFloat16;
  std::int64_t inner = 32;
  bool bias = true, keeps_h = true;
  GeluForm form = GeluForm::kTanh;

  /// gelu(x w^T + b), what it was taken of, and then (dy w) gelu'(h) and gelu(h).
  std::vector<Tensor> operator()(bool on_device = true) const {
    const auto make = [&](const Shape& shape, std::uint64_t seed) {
      const Tensor made = on_gpu(shape, dtype, seed);
      return on_device ? made : made.to(kCpu);
    };
    const Tensor x = make({24, 16}, 1), w = make({inner, 16}, 2), b = make({inner}, 3);
    const Tensor dy = make({24, 8}, 4), v = make({8, inner}, 5);
    const Tensor g = empty({24, inner}, dtype, x.device()), h = empty_like(g), dh = empty_like(g);
    const Tensor none;
    matmul_gelu_into(g, x, transposed(w), bias ? b : none, keeps_h ? h : none, form);
    std::vector<Tensor> results = {g.to(kCpu)};
    if (!keeps_h) return results;
    results.push_back(h.clone().to(kCpu));
    matmul_gelu_gradient_into(dh, dy, v, h, form);
    results.push_back(dh.to(kCpu));
    results.push_back(h.to(kCpu));
    return results;
  }

  void check() const {
    const std::vector<Tensor> found = (*this)(), expected = (*this)(/*on_device=*/false);
    const double tolerance = dtype == DType::kBFloat16 ? 0.15 : 3e-5;  // of numbers up to 20
    for (std::size_t i = 0; i < expected.size(); ++i)
      check_close(found[i], expected[i], tolerance, std::to_string(i));
    const std::vector<Tensor> again = (*this)();
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same_bits(found[i], again[i]));
  }
};

/// All of one epilogue.
int runs_of(unsigned epilogue) {
  return Gemms::runs(11, epilogue) + Gemms::runs(12, epilogue);
}

}  // namespace

TEST_CASE("sim: GELU and its gradient are part of the products", "[sim]") {
  const Gemms gemms;
  GeluProducts{}.check();
  CHECK(runs_of(kGeluAuxBias) == 2);
  CHECK(runs_of(kGeluGradient) == 2);
  GeluProducts{.bias = false}.check();
  CHECK(runs_of(kGeluAux) == 2);
  CHECK(runs_of(kGeluGradient) == 4);
  GeluProducts{.keeps_h = false}.check();
  CHECK(runs_of(kGeluBias) == 2);
  GeluProducts{.bias = false, .keeps_h = false}.check();
  CHECK(runs_of(kGelu) == 2);
  CHECK(runs_of(kPlain) + runs_of(kBias) == 0);
}

TEST_CASE("sim: a GELU that cuBLASLt does not have, or too coarse, is a kernel of its own", "[sim]") {
  const auto check_plain = [](const GeluProducts& products, unsigned forward_epilogue) {
    products.check();
    CHECK(runs_of(forward_epilogue) >= 2);
    CHECK(runs_of(kPlain) >= 2);
    for (const unsigned epilogue : {kGeluAuxBias, kGeluAux, kGeluGradient}) CHECK(runs_of(epilogue) == 0);
  };
  const auto with = [&](const GeluProducts& products, unsigned forward_epilogue) {
    const Gemms gemms;
    check_plain(products, forward_epilogue);
  };
  with({.form = GeluForm::kExact}, kBias);
  with({.bias = false, .form = GeluForm::kExact}, kPlain);
  with({.inner = 28}, kPlain);               // rows of h are not a multiple of eight elements apart
  with({.dtype = DType::kFloat32}, kPlain);  // the tanh has 11 bits
  with({.dtype = DType::kFloat32, .form = GeluForm::kExact}, kBias);
  {
    const Gemms gemms;
    Cublas::instance().has_epilogues = false;
    check_plain({}, kPlain);
    check_plain({.bias = false}, kPlain);
    GeluProducts{.keeps_h = false}.check();
    CHECK(runs_of(kGeluBias) == 0);
  }
  const Gemms gemms;
  const MathModeScope mode({.tf32 = true});
  GeluProducts{.dtype = DType::kFloat32}();
  CHECK(runs_of(kGeluAuxBias) == 1);
  CHECK(runs_of(kGeluGradient) == 1);
}

TEST_CASE("sim: a matrix h at another alignment is no part of the product", "[sim]") {
  const Gemms gemms;
  const Tensor x = on_gpu({8, 16}, DType::kBFloat16, 1), w = on_gpu({16, 16}, DType::kBFloat16, 2);
  const Tensor b = on_gpu({16}, DType::kBFloat16, 3), g = empty({8, 16}, DType::kBFloat16, x.device());
  const Tensor room = empty({2 * 8 * 16}, DType::kBFloat16, x.device());
  const auto run = [&](std::int64_t offset) {
    const Tensor h = room.slice(offset, offset + 8 * 16).reshape({8, 16});
    matmul_gelu_into(g, x, transposed(w), b, h, GeluForm::kTanh);
    return std::vector<Tensor>{g.to(kCpu), h.clone().to(kCpu)};
  };
  const std::vector<Tensor> aligned = run(0), shifted = run(8), odd = run(3);
  CHECK(runs_of(kGeluAuxBias) == 2);
  CHECK(runs_of(kPlain) == 1);
  for (std::size_t i = 0; i < aligned.size(); ++i) {
    CHECK(same_bits(aligned[i], shifted[i]));
    check_close(odd[i], aligned[i], 0.15, std::to_string(i));
  }
}

TEST_CASE("sim: the search may choose GELU as a kernel, and the choice is kept", "[sim]") {
  std::string found;
  std::vector<Tensor> first;
  {
    const Gemms gemms(searching(found));
    Cublas::instance().milliseconds = {{11, 3}, {12, 3}, {13, 1}};  // 13 has no epilogues
    GeluProducts{}.check();
    first = GeluProducts{}();
    CHECK_THAT(found, Catch::Contains("gelu_aux_bias: separate id 13") &&
                          Catch::Contains("gelu_gradient: separate id 13"));
  }
  {
    const Gemms gemms(searching(found));
    GeluProducts{}.check();
    CHECK_THAT(found, Catch::Contains("gelu_aux_bias: fused id 12") &&
                          Catch::Contains("gelu_gradient: fused id 12"));
  }
  GemmOptions again;
  again.algorithms = found;
  const Gemms gemms(again);
  GeluProducts{}.check();
  CHECK(Gemms::runs(12, kGeluAuxBias) == 2);
  CHECK(Gemms::runs(12, kGeluGradient) == 2);
  CHECK(Gemms::runs(11) + Gemms::runs(13) == 0);
}

TEST_CASE("sim: a file of algorithms cannot ask for a GELU that is too coarse", "[sim]") {
  const GeluProducts products{.dtype = DType::kFloat32, .keeps_h = false};
  std::string found;
  GemmOptions options;
  {
    const Gemms gemms(searching(found));
    products();
    CHECK_THAT(found, Catch::Contains("gelu_bias: separate id 12"));
  }
  options.algorithms = found;
  {
    const Gemms gemms(options);
    CHECK_NOTHROW(products());
  }
  options.algorithms = std::regex_replace(found, std::regex("separate"), "fused");
  const Gemms gemms(options);
  CHECK_THROWS_AS(products(), DataError);
}

TEST_CASE("sim: an MLP in bfloat16 has GELU, biases and their gradients in its products", "[sim]") {
  const Gemms gemms;
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return Variable(on_gpu(shape, DType::kBFloat16, seed), true);
  };
  const Variable x = leaf({6, 8}, 1), w1 = leaf({32, 8}, 2), b1 = leaf({32}, 3), w2 = leaf({8, 32}, 4),
                 b2 = leaf({8}, 5);
  const Variable y = gelu_mlp(x, w1, b1, w2, b2, GeluForm::kTanh);
  CHECK(runs_of(kGeluAuxBias) == 1);
  CHECK(runs_of(kBias) == 1);
  y.backward(on_gpu({6, 8}, DType::kBFloat16, 6));
  CHECK(runs_of(kGeluGradient) == 1);
  CHECK(runs_of(kRowSums) == 2);
  CHECK(runs_of(kPlain) == 1);  // the gradient of x
  const NoGrad no_grad;
  gelu_mlp(x, w1, b1, w2, b2, GeluForm::kTanh);
  CHECK(runs_of(kGeluBias) == 1);  // h is not written
}
