#include "ops/elementwise/gate_residual.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::vector<Tensor> gate_residual_reference(const std::vector<Tensor>& in, std::int64_t row) {
  const std::int64_t width = in[1].dim(-1), sample = in[1].numel() / std::max<std::int64_t>(in[1].dim(0), 1);
  Tensor y = empty_like(in[1]);
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    const double* gates = in[2].data<double>() + (i / sample * in[2].dim(1) + row) * width;
    y.data<double>()[i] = in[0].data<double>()[i] + gates[i % width] * in[1].data<double>()[i];
  }
  return {y};
}

}  // namespace

OP_CASES(gate_residual) {
  struct Sizes {
    Shape x;
    std::int64_t rows, row;
  };
  OpCases cases;
  for (const Sizes& s : std::vector<Sizes>{{{0, 3, 4}, 1, 0},
                                           {{2, 0, 4}, 2, 1},
                                           {{1, 1, 1}, 1, 0},
                                           {{3, 8}, 3, 1},
                                           {{2, 5, 7}, 6, 5},
                                           {{2, 3, 4, 32}, 6, 2},
                                           {{3, 70, 33}, 1, 0},
                                           {{67, 2, 9}, 2, 0},
                                           {{1, 2, 2065}, 1, 0}}) {
    cases.push_back(
        {.name = to_string(s.x) + ", row " + std::to_string(s.row) + " of " + std::to_string(s.rows),
         .inputs = {normal(s.x), normal(s.x, 2), normal({s.x[0], s.rows, s.x[-1]}, 3)},
         .run = [=](const Inputs& in) { return Outputs{gate_residual(in[0], in[1], in[2], s.row)}; },
         .reference = [=](const auto& in) { return gate_residual_reference(in, s.row); }});
  }
  return cases;
}

TEST_CASE("ops: gate_residual refuses what does not fit") {
  const Variable x(normal({2, 3, 5})), modulation(normal({2, 6, 5}));
  CHECK_THROWS_WITH(gate_residual(Variable(normal({2, 4, 5})), x, modulation, 0),
                    "gate_residual: residual: expected shape [2, 3, 5] (as x), found [2, 4, 5]");
  CHECK_THROWS_WITH(gate_residual(x, x, modulation, 6),
                    "gate_residual: row of modulation: expected 0 to 5, found 6");
  CHECK_THROWS_AS(gate_residual(x, x, Variable(normal({2, 6, 4})), 0), ShapeError);
  CHECK_THROWS_AS(gate_residual(Variable(normal({2, 3, 5}).to(DType::kFloat32)), x, modulation, 0),
                  DTypeError);
  CHECK_THROWS_AS(gate_residual(x, x, Variable(), 0), ValueError);
}
