#include "ops/attention/position_bias.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/random.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

Tensor some_index(const Shape& shape, std::int64_t rows) {
  Tensor index = empty(shape, DType::kInt64);
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    index.data<std::int64_t>()[i] = static_cast<std::int64_t>(
        random_below({3, 4}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(rows)));
  }
  return index;
}

}  // namespace

OP_CASES(position_bias) {
  OpCases cases;
  struct Sizes {
    Shape table, pairs;
  };
  for (const Sizes& s : {Sizes{{1, 1}, {1, 1}}, {{4, 3}, {0, 5}}, {{7, 3}, {5, 4}}, {{9, 2}, {70, 65}}}) {
    const Shape table = s.table, pairs = s.pairs;
    const Tensor index = some_index(pairs, table[0]);
    cases.push_back(
        {.name = to_string(table) + " for " + to_string(pairs),
         .inputs = {normal(table)},
         .run = [=](const Inputs& in) { return Outputs{position_bias(in[0], index.to(in[0].device()))}; },
         .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
           const std::int64_t heads = in[0].dim(1);
           const Tensor y = empty({heads, pairs[0], pairs[1]}, DType::kFloat64);
           for (std::int64_t i = 0; i < y.numel(); ++i) {
             const std::int64_t h = i / index.numel(), row = index.data<std::int64_t>()[i % index.numel()];
             y.data<double>()[i] = in[0].data<double>()[row * heads + h];
           }
           return {y};
         }});
  }
  return cases;
}

TEST_CASE("ops: position_bias refuses what does not fit") {
  const Variable table(normal({4, 2}));
  CHECK_THROWS_AS(position_bias(table, full({2, 3}, 4, DType::kInt32)), ValueError);
  CHECK_THROWS_AS(position_bias(table, full({2, 3}, -1, DType::kInt32)), ValueError);
  CHECK_THROWS_AS(position_bias(table, full({2, 3}, 0, DType::kFloat32)), DTypeError);
  CHECK_THROWS_AS(position_bias(table, full({6}, 0, DType::kInt32)), ShapeError);
  CHECK_THROWS_AS(position_bias(Variable(normal({4})), full({2, 3}, 0, DType::kInt32)), ShapeError);
}
