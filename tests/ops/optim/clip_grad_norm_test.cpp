#include "ops/optim/clip_grad_norm.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

/// An empty tensor, an absent one, a scalar, and several chunks; of several dtypes.
std::vector<Tensor> some_grads() {
  return {normal({130, 131}).to(DType::kFloat32), zeros({0}, DType::kFloat32),          Tensor(),
          normal({}, 2).to(DType::kFloat32),      normal({33}, 3).to(DType::kBFloat16), normal({5}, 4)};
}

}  // namespace

TEST_CASE("ops: grad_norm is the norm of all elements together", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    double squares = 0.0;
    for (const Tensor& grad : some_grads()) {
      if (!grad.defined()) continue;
      const Tensor wide = grad.to(DType::kFloat64);
      for (const double g : wide.span<double>()) squares += g * g;
    }
    CHECK(grad_norm(some_grads()) == Approx(std::sqrt(squares)).epsilon(1e-13));
  }
  CHECK(grad_norm({}) == 0.0);
}

TEST_CASE("ops: grad_norm neither overflows nor depends on the number of threads") {
  const std::vector<Tensor> huge = {full({3}, 1e30, DType::kFloat32)};
  CHECK(grad_norm(huge) == Approx(std::sqrt(3.0) * 1e30).epsilon(1e-6));
  const int threads = num_threads();
  set_num_threads(1);
  const double one = grad_norm(some_grads());
  set_num_threads(3);
  const double three = grad_norm(some_grads());
  set_num_threads(threads);
  CHECK(one == three);
}

TEST_CASE("ops: grad_norm shows what is not finite") {
  CHECK(std::isnan(grad_norm(std::vector<Tensor>{full({40}, NAN, DType::kBFloat16)})));
  CHECK(std::isinf(grad_norm(std::vector<Tensor>{full({40}, -INFINITY, DType::kFloat32)})));
}

TEST_CASE("ops: clip_factor") {
  CHECK(clip_factor(0.0, 1.0) == 1.0);
  CHECK(clip_factor(0.5, 1.0) == 1.0);
  CHECK(clip_factor(4.0, 1.0) == 1.0 / (4.0 + 1e-6));
  CHECK_THROWS_WITH(clip_factor(NAN, 1.0), "clip_factor: gradient norm: expected a finite number, found nan");
  CHECK_THROWS_AS(clip_factor(INFINITY, 1.0), NumericError);
  CHECK_THROWS_AS(clip_factor(1.0, 0.0), ValueError);
  CHECK_THROWS_AS(grad_norm(std::vector<Tensor>{zeros({3}, DType::kInt32)}), DTypeError);
}
