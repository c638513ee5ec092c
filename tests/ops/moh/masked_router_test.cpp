#include "ops/moh/masked_router.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "ops/moh/head_router.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kMaskedRouterTokens = 9, kHeads = 5;

/// The equations of route_masked_heads, token by token: gates, then the balance loss, of `given` loads if
/// there are.
std::vector<Tensor> masked_router_reference(const std::vector<Tensor>& in, double kept_share,
                                            BalanceLoss form, const Tensor& given = {}) {
  const Tensor gates = zeros({kMaskedRouterTokens, kHeads}, DType::kFloat64);
  std::array<double, kHeads> mean{}, load{};
  const double* z = in[3].data<double>();
  double shared = 0, routed = 0;
  std::int64_t candidates = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) {
    shared += z[h];
    routed += 1 - z[h];
    candidates += z[h] < 1;
  }
  const auto k =
      std::min<std::int64_t>(std::max<std::int64_t>(std::lround(kept_share * routed), 1), candidates);
  for (std::int64_t t = 0; t < kMaskedRouterTokens; ++t) {
    const double *s = in[0].data<double>() + t * kHeads, *r = in[1].data<double>() + t * kHeads;
    double w0 = 1, w1 = 1, of_shared = 0, of_routed = 0, of_kept = 0, kept = 0;
    if (in[2].defined()) {
      const double* types = in[2].data<double>() + 2 * t;
      w0 = 2 * std::exp(types[0]) / (std::exp(types[0]) + std::exp(types[1]));
      w1 = 2 - w0;
    }
    std::vector<std::int64_t> order;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      of_shared += z[h] * std::exp(s[h]);
      of_routed += (1 - z[h]) * std::exp(r[h]);
      if (z[h] < 1) order.push_back(h);
    }
    std::ranges::stable_sort(
        order, [&](auto a, auto b) { return (1 - z[a]) * std::exp(r[a]) > (1 - z[b]) * std::exp(r[b]); });
    order.resize(static_cast<std::size_t>(k));
    for (const std::int64_t h : order) {
      kept += 1 - z[h];
      of_kept += (1 - z[h]) * std::exp(r[h]);
      load[h] += 1.0 / kMaskedRouterTokens;
    }
    double* g = gates.data<double>() + t * kHeads;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      if (z[h] > 0) g[h] += w0 * shared * z[h] * std::exp(s[h]) / of_shared;
      if (z[h] < 1) mean[h] += (1 - z[h]) * std::exp(r[h]) / of_routed / kMaskedRouterTokens;
    }
    for (const std::int64_t h : order) g[h] += w1 * kept * (1 - z[h]) * std::exp(r[h]) / of_kept;
  }
  if (given.defined()) std::ranges::copy(given.span<double>(), load.begin());
  double balance = 0;
  for (std::int64_t h = 0; h < kHeads; ++h) balance += mean[h] * load[h];
  if (form == BalanceLoss::kCode) balance *= routed;
  if (form == BalanceLoss::kShares) balance *= routed / static_cast<double>(k);
  return {gates, full({}, balance, DType::kFloat64)};
}

Outputs outputs_of(const MaskedRouting& routing) {
  return {routing.gates, routing.balance};
}

}  // namespace

OP_CASES(route_masked_heads) {
  OpCases cases;
  for (const bool two_stage : {true, false}) {
    for (const auto& each :
         {std::pair{0.5, BalanceLoss::kCode}, {0.25, BalanceLoss::kPaper}, {1.0, BalanceLoss::kShares}}) {
      const double share = each.first;
      const BalanceLoss form = each.second;
      const Tensor masks = uniform({kHeads}, 0.1, 0.9, 4);
      const std::vector<Tensor> logits = {normal({kMaskedRouterTokens, kHeads}),
                                          normal({kMaskedRouterTokens, kHeads}, 2),
                                          two_stage ? normal({kMaskedRouterTokens, 2}, 3) : Tensor()};
      cases.push_back(
          {.name = std::to_string(share) + (two_stage ? ", two-stage" : ""),
           .inputs = logits,
           .run =
               [=](const Inputs& in) {
                 return outputs_of(route_masked_heads(
                     in[0], in[1], in[2], Variable(masks.to(in[0].dtype()).to(in[0].device())), share, form));
               },
           .reference =
               [=](const std::vector<Tensor>& in) {
                 return masked_router_reference({in[0], in[1], in[2], masks}, share, form);
               },
           .low_precision = false});
      // The balance loss passes no gradient to the masks, and their sum decides how it is scaled.
      cases.push_back({.name = "masks, " + std::to_string(share) + (two_stage ? ", two-stage" : ""),
                       .inputs = {logits[0], logits[1], logits[2], masks},
                       .run =
                           [=](const Inputs& in) {
                             return Outputs{
                                 route_masked_heads(in[0], in[1], in[2], in[3], share, form).gates};
                           },
                       .reference = [=](const std::vector<Tensor>& in) -> std::vector<Tensor> {
                         return {masked_router_reference(in, share, form)[0]};
                       },
                       .low_precision = false});
    }
  }
  const Tensor masks = uniform({kHeads}, 0.1, 0.9, 4), load = uniform({kHeads}, 0.1, 0.9, 5);
  const BalanceLoss form = BalanceLoss::kShares;
  cases.push_back({.name = "the loads of other tokens",
                   .inputs = {normal({kMaskedRouterTokens, kHeads}), normal({kMaskedRouterTokens, kHeads}, 2),
                              normal({kMaskedRouterTokens, 2}, 3)},
                   .run =
                       [=](const Inputs& in) {
                         const auto placed = [&](const Tensor& x) {
                           return x.to(in[0].dtype()).to(in[0].device());
                         };
                         return outputs_of(route_masked_heads(in[0], in[1], in[2], Variable(placed(masks)),
                                                              0.5, form, placed(load)));
                       },
                   .reference =
                       [=](const std::vector<Tensor>& in) {
                         return masked_router_reference({in[0], in[1], in[2], masks}, 0.5, form, load);
                       },
                   .low_precision = false});
  return cases;
}

TEST_CASE("moh: masks of 0 and 1 are the plain routing, with its gradients") {
  const Tensor masks = tensor_of<double>({kHeads}, {0, 1, 0, 1, 0});
  const std::vector<std::int64_t> shared = {1, 3}, routed = {0, 2, 4};
  const RouterOptions options{kHeads, 2, 1};
  const Variable s(normal({kMaskedRouterTokens, kHeads}), true),
      r(normal({kMaskedRouterTokens, kHeads}, 2), true), types(normal({kMaskedRouterTokens, 2}, 3), true);
  const auto columns = [](const Variable& x, const std::vector<std::int64_t>& heads) {
    const auto width = static_cast<std::int64_t>(heads.size());
    const Tensor y = empty({kMaskedRouterTokens, width}, DType::kFloat64);
    for (std::int64_t i = 0; i < y.numel(); ++i)
      y.data<double>()[i] = x.value().data<double>()[i / width * kHeads + heads[i % width]];
    return Variable(y, true);
  };
  const Variable plain_s = columns(s, shared), plain_r = columns(r, routed), plain_types(types.value(), true);
  const MaskedRouting found = route_masked_heads(s, r, types, Variable(masks, true), 0.4);
  const Routing expected =
      route_heads(plain_s, plain_r, plain_types, kMaskedRouterTokens, options, head_order(kHeads, shared));
  CHECK(found.balance.value().item() == Approx(expected.balance.value().item()));
  CHECK(found.routed_weight.item() == Approx(expected.statistics.slice(0, 1).item()));
  const Tensor dy = normal({kMaskedRouterTokens, kHeads}, 5);
  for (std::int64_t i = 0; i < dy.numel(); ++i) {
    const bool selected = expected.selected.data<std::uint8_t>()[i] != 0;
    CHECK(found.selected.data<std::uint8_t>()[i] == selected);
    CHECK(found.gates.value().data<double>()[i] == Approx(expected.gates.value().data<double>()[i]));
    if (!selected) dy.data<double>()[i] = 0;
  }
  found.gates.backward(dy);
  expected.gates.backward(dy);
  const auto check_columns = [](const Variable& all, const Variable& plain,
                                const std::vector<std::int64_t>& heads) {
    const Tensor& grad = all.grad();
    const Tensor& of_plain = plain.grad();
    const auto width = static_cast<std::int64_t>(heads.size());
    for (std::int64_t i = 0; i < of_plain.numel(); ++i) {
      CHECK(grad.data<double>()[i / width * kHeads + heads[i % width]] ==
            Approx(of_plain.data<double>()[i]).margin(1e-14));
    }
  };
  check_columns(s, plain_s, shared);
  check_columns(r, plain_r, routed);
  for (std::int64_t i = 0; i < 2 * kMaskedRouterTokens; ++i)
    CHECK(types.grad().data<double>()[i] == Approx(plain_types.grad().data<double>()[i]).margin(1e-14));
}

TEST_CASE("moh: with every head shared none is routed, and all outputs are finite") {
  const Variable logits(normal({kMaskedRouterTokens, kHeads}).to(DType::kFloat32), true);
  const MaskedRouting all =
      route_masked_heads(logits, logits, {}, Variable(full({kHeads}, 1, DType::kFloat32), true), 0.5);
  CHECK(all.balance.value().item() == 0);
  CHECK(all.gates.value().all_finite());
  double sum = 0;
  for (const float g : all.gates.value().span<float>()) sum += g;
  CHECK(sum == Approx(kMaskedRouterTokens * kHeads));
  all.gates.backward(full({kMaskedRouterTokens, kHeads}, 1, DType::kFloat32));
  CHECK(logits.grad().all_finite());
}

TEST_CASE("moh: what masked routing cannot take is refused") {
  const Variable logits(normal({kMaskedRouterTokens, kHeads})), masks(uniform({kHeads}, 0, 1));
  CHECK_THROWS_AS(route_masked_heads(logits, logits, {}, Variable(normal({4})), 0.5), ShapeError);
  CHECK_THROWS_AS(route_masked_heads(logits, Variable(normal({kMaskedRouterTokens, 4})), {}, masks, 0.5),
                  ShapeError);
  CHECK_THROWS_AS(route_masked_heads(logits, logits, {}, masks, 1.5), ValueError);
  const Variable narrow(logits.value().to(DType::kBFloat16));
  CHECK_THROWS_AS(route_masked_heads(narrow, narrow, {}, masks, 0.5), DTypeError);
}
