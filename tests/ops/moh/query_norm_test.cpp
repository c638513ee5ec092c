#include "ops/moh/query_norm.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "ops/moh/head_router.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

using QueryNormHeads = std::vector<std::int64_t>;

/// `order`: the shared heads, then the routed ones.
std::vector<Tensor> query_norm_reference(const std::vector<Tensor>& in, std::int64_t first,
                                         const QueryNormHeads& order) {
  const std::int64_t tokens = in[0].dim(0), heads = in[0].dim(1), d = in[0].dim(2), experts = heads - first;
  Tensor z = zeros({tokens, experts}, DType::kFloat64);
  for (std::int64_t t = 0; t < tokens; ++t) {
    std::vector<double> s(experts);
    double mean = 0, squares = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      for (std::int64_t j = 0; j < d; ++j)
        s[e] += std::pow(in[0].data<double>()[(t * heads + order[first + e]) * d + j], 2);
      s[e] = std::sqrt(s[e]);
      mean += s[e] / experts;
    }
    for (double v : s) squares += (v - mean) * (v - mean);
    for (std::int64_t e = 0; e < experts && experts > 1; ++e) {
      z.data<double>()[t * experts + e] = s[e] / std::sqrt(squares / (experts - 1));
    }
  }
  return {z};
}

/// x [N, H, d] with head i moved to order[i].
Tensor placed_heads(const Tensor& x, const QueryNormHeads& order) {
  const Tensor from = x.to(DType::kFloat64);
  Tensor to = empty_like(from);
  const std::int64_t heads = x.dim(1), d = x.dim(2);
  for (std::int64_t i = 0; i < from.numel(); ++i) {
    const std::int64_t token = i / (heads * d), head = i / d % heads;
    to.data<double>()[(token * heads + order[head]) * d + i % d] = from.data<double>()[i];
  }
  return to;
}

}  // namespace

OP_CASES(query_norm_logits) {
  OpCases cases;
  for (auto [shape, first] : std::vector<std::pair<Shape, std::int64_t>>{
           {{3, 4, 5}, 0}, {{2, 8, 16}, 4}, {{70, 6, 3}, 1}, {{0, 4, 8}, 2}}) {
    cases.push_back(
        {.name = to_string(shape) + " from head " + std::to_string(first),
         .inputs = {normal(shape)},
         .run = [first = first](const Inputs& in) { return Outputs{query_norm_logits(in[0], first)}; },
         .reference =
             [first = first](const auto& in) {
               QueryNormHeads order(in[0].dim(1));
               std::iota(order.begin(), order.end(), 0);
               return query_norm_reference(in, first, order);
             },
         .units = 256});  // norms that lie close together amplify rounding by mean / std
  }
  cases.push_back({.name = "the shared heads are 1, 3 and 4 of 6",
                   .inputs = {normal({70, 6, 3})},
                   .run =
                       [](const Inputs& in) {
                         return Outputs{query_norm_logits(
                             in[0], 3, head_order(6, QueryNormHeads{3, 1, 4}, in[0].device()))};
                       },
                   .reference =
                       [](const auto& in) {
                         return query_norm_reference(in, 3, {1, 3, 4, 0, 2, 5});
                       },
                   .units = 256});
  return cases;
}

TEST_CASE("moh: equal query norms, and a single routed head, give zero logits and no gradient") {
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{2, 1, 4}}) {
    Variable q(full(shape, 1.0, DType::kFloat32), true);
    const Variable z = query_norm_logits(q, 0);
    for (float v : z.value().span<float>()) CHECK(v == 0.0F);
    z.backward(full(z.shape(), 1.0, DType::kFloat32));
    for (float v : q.grad().span<float>()) CHECK(v == 0.0F);
  }
  CHECK_THROWS_AS(query_norm_logits(Variable(normal({2, 3, 4})), 3), ValueError);
  CHECK_THROWS_AS(query_norm_logits(Variable(normal({2, 3})), 0), ShapeError);
}

TEST_CASE("moh: query norms have the same bits wherever the shared heads stand") {
  const QueryNormHeads order = {1, 3, 5, 0, 2, 4, 6, 7, 8};
  const auto same = [](const Tensor& x, const Tensor& y) {
    return std::ranges::equal(x.to(DType::kFloat64).span<double>(), y.to(DType::kFloat64).span<double>());
  };
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const std::int64_t d : {3, 16, 21}) {
      const Tensor x = normal({70, 9, d});
      const Variable q(x.to(dtype), true), moved(placed_heads(x, order).to(dtype), true);
      const Variable plain = query_norm_logits(q, 3);
      const Variable listed = query_norm_logits(moved, 3, head_order(9, QueryNormHeads{5, 1, 3}));
      CHECK(same(plain.value(), listed.value()));
      const Tensor dz = normal(plain.shape(), 9).to(plain.dtype());
      plain.backward(dz);
      listed.backward(dz);
      CHECK(same(placed_heads(q.grad(), order), moved.grad()));
    }
  }
}
