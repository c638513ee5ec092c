#include "ops/linalg/add_low_rank.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Sizes of a case: [outer, width] for y, and of each term the rows and the rank of its matrix, and
/// its first column.
struct AddLowRankSizes {
  std::vector<std::int64_t> outer;
  std::int64_t width;
  struct Term {
    std::int64_t out, rank, first;
  };
  std::vector<Term> terms;

  Shape with(std::int64_t last) const {
    std::vector<std::int64_t> extents = outer;
    extents.push_back(last);
    return Shape(std::span<const std::int64_t>(extents));
  }
  std::int64_t ranks() const {
    std::int64_t all = 0;
    for (const Term& term : terms) all += term.rank;
    return all;
  }
};

std::vector<LowRankTerm> terms_of(const Inputs& in, const AddLowRankSizes& sizes) {
  std::vector<LowRankTerm> terms;
  for (std::size_t i = 0; i < sizes.terms.size(); ++i) terms.push_back({in[2 + i], sizes.terms[i].first});
  return terms;
}

std::vector<Tensor> add_low_rank_reference(const std::vector<Tensor>& in, const AddLowRankSizes& sizes) {
  const Tensor y = empty(in[0].shape(), DType::kFloat64);
  y.copy_from(in[0]);
  std::int64_t begin = 0;
  for (std::size_t t = 0; t < sizes.terms.size(); ++t) {
    const auto& [out, rank, first] = sizes.terms[t];
    for (std::int64_t row = 0; row < y.numel() / sizes.width; ++row) {
      for (std::int64_t o = 0; o < out; ++o) {
        for (std::int64_t k = 0; k < rank; ++k)
          y.data<double>()[row * sizes.width + first + o] +=
              in[1].data<double>()[row * sizes.ranks() + begin + k] * in[2 + t].data<double>()[o * rank + k];
      }
    }
    begin += rank;
  }
  return {y};
}

}  // namespace

OP_CASES(add_low_rank) {
  OpCases cases;
  for (const AddLowRankSizes& sizes :
       {AddLowRankSizes{{1}, 1, {{1, 1, 0}}}, AddLowRankSizes{{2, 3}, 17, {{5, 2, 0}, {9, 4, 8}}},
        AddLowRankSizes{{0}, 4, {{4, 2, 0}}}, AddLowRankSizes{{33}, 40, {{16, 3, 24}, {8, 3, 0}}},
        AddLowRankSizes{{}, 5, {{3, 2, 1}}}}) {
    std::vector<Tensor> inputs = {normal(sizes.with(sizes.width), 1), normal(sizes.with(sizes.ranks()), 2)};
    for (std::size_t i = 0; i < sizes.terms.size(); ++i)
      inputs.push_back(normal({sizes.terms[i].out, sizes.terms[i].rank}, 3 + i));
    cases.push_back(
        {.name = to_string(sizes.with(sizes.width)) + " and " + std::to_string(sizes.terms.size()) + " terms",
         .inputs = inputs,
         .run = [=](const Inputs& in) { return Outputs{add_low_rank(in[0], in[1], terms_of(in, sizes))}; },
         .reference = [=](const std::vector<Tensor>& in) { return add_low_rank_reference(in, sizes); },
         .units = 32});
  }
  return cases;
}

TEST_CASE("ops: add_low_rank with matrices of zeros keeps the bits") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Variable y(normal({7, 12}, 1).to(dtype)), h(normal({7, 3}, 2).to(dtype));
    const Variable up(zeros({12, 3}, dtype));
    CHECK(same_bits(add_low_rank(y, h, {{up}}).value(), y.value()));
  }
}

TEST_CASE("ops: add_low_rank refuses what does not fit") {
  const Variable y(normal({3, 4})), h(normal({3, 2})), up(normal({4, 2}));
  CHECK_THROWS_WITH(add_low_rank(y, h, {{up, 1}}),
                    "add_low_rank: first_column: expected a range of 4 of the 4 columns of y, found one that "
                    "begins at 1");
  CHECK_THROWS_WITH(add_low_rank(y, h, {{up}, {up}}),
                    "add_low_rank: h: expected shape [3, 4] (rows of y, and all ranks), found [3, 2]");
  CHECK_THROWS_AS(add_low_rank(y, Variable(normal({3, 2}).to(DType::kFloat32)), {{up}}), DTypeError);
}
