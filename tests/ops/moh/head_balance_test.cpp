// Balancing besides the paper's loss: the squared coefficient of variation of their importance, and
// biases of the selection.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "core/error.h"
#include "ops/moh/head_router.h"
#include "ops/moh/masked_router.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kTokens = 9;

using Numbers = std::vector<double>;

/// Facts that the router needs besides its options.
struct Given {
  Tensor bias, balance_load;  // float64, undefined without
};

Numbers softmax(Numbers z) {
  const double top = *std::ranges::max_element(z);
  for (double& v : z) v = std::exp(v - top);
  const double sum = std::accumulate(z.begin(), z.end(), 0.0);
  for (double& v : z) v /= sum;
  return z;
}

/// The heads of each group with the largest p + b.
std::vector<std::int64_t> selected_by(const Numbers& p, const Tensor& bias, const RouterOptions& o) {
  std::vector<std::int64_t> kept;
  const auto score = [&](std::int64_t e) { return p[e] + (bias.defined() ? bias.data<double>()[e] : 0.0); };
  for (std::int64_t g = 0; g < o.groups; ++g) {
    std::vector<std::int64_t> heads(o.group_routed());
    std::iota(heads.begin(), heads.end(), g * o.group_routed());
    std::ranges::stable_sort(heads, [&](std::int64_t a, std::int64_t b) { return score(a) > score(b); });
    kept.insert(kept.end(), heads.begin(), heads.begin() + o.group_top_k());
  }
  return kept;
}

/// The mean over groups of CV^2 = var / mean^2 of the importance, in the words of arXiv 1701.06538; with
/// other tokens' mean importance f the linear form of docs/load_balance.md.
double squared_variation(const Numbers& importance, const RouterOptions& o, const Tensor& given) {
  const std::int64_t size = o.group_routed();
  const auto count = static_cast<double>(size);
  double loss = 0;
  for (std::int64_t first = 0; first < o.routed(); first += size) {
    double mean = 0, variance = 0, products = 0, squares = 0;
    for (std::int64_t e = first; e < first + size; ++e) mean += importance[e] / count;
    for (std::int64_t e = first; e < first + size; ++e) {
      variance += std::pow(importance[e] - mean, 2) / count;
      const double f = given.defined() ? given.data<double>()[e] : 0.0;
      products += f * importance[e] / kTokens;
      squares += f * f;
    }
    const double own = variance / (mean * mean), of_others = count * (2 * products - squares) - 1;
    loss += (given.defined() ? of_others : own) / static_cast<double>(o.groups);
  }
  return loss;
}

/// Gates of routed heads alone (no shared ones), and the loss.
std::vector<Tensor> head_balance_reference(const Tensor& logits, const RouterOptions& o, const Given& given) {
  const std::int64_t routed = o.routed();
  Tensor gates = zeros({kTokens, routed}, DType::kFloat64);
  Numbers importance(routed);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const double* z = logits.data<double>() + t * routed;
    const Numbers p = softmax({z, z + routed});
    const std::vector<std::int64_t> kept = selected_by(p, given.bias, o);
    double sum = 0;
    for (const std::int64_t e : kept) sum += p[e];
    for (const std::int64_t e : kept) {
      gates.data<double>()[t * routed + e] =
          o.scaling == GateScaling::kPaper ? p[e] : static_cast<double>(o.top_k) * p[e] / sum;
      double of_group = 0;
      for (const std::int64_t other : kept)
        of_group += other / o.group_routed() == e / o.group_routed() ? p[other] : 0.0;
      importance[e] += p[e] / of_group;
    }
  }
  return {gates, full({}, squared_variation(importance, o, given.balance_load), DType::kFloat64)};
}

Tensor placed_like(const Tensor& tensor, const Variable& z) {
  return tensor.defined() ? tensor.to(z.dtype()).to(z.device()) : Tensor();
}

OpCase case_of(const std::string& name, const RouterOptions& o, const Given& given) {
  return {.name = name,
          .inputs = {normal({kTokens, o.routed()}, 2)},
          .run =
              [=](const Inputs& in) {
                const Routing r =
                    route_heads({}, in[0], {}, kTokens, o, {}, {}, kCpu,
                                placed_like(given.balance_load, in[0]), placed_like(given.bias, in[0]));
                return Outputs{r.gates, r.balance};
              },
          .reference = [=](const std::vector<Tensor>& in) { return head_balance_reference(in[0], o, given); },
          .gradient_scale = 0.1,  // with K = 1 they are 0, the difference of numbers of this size
          .low_precision = false};
}

RouterOptions options_of(std::int64_t heads, std::int64_t top_k, std::int64_t groups,
                         GateScaling scaling = GateScaling::kCode) {
  RouterOptions o{heads, 0, top_k, scaling};
  o.groups = groups;
  o.balance_loss = BalanceLoss::kCv;
  return o;
}

std::vector<std::int32_t> top_of(const Routing& routing) {
  return {routing.top.span<std::int32_t>().begin(), routing.top.span<std::int32_t>().end()};
}

}  // namespace

OP_CASES(balanced_route_heads) {
  OpCases cases;
  for (const GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper}) {
    for (const auto& [heads, top_k, groups] :
         std::vector<std::array<std::int64_t, 3>>{{6, 2, 1}, {5, 1, 1}, {4, 4, 1}, {12, 6, 3}, {40, 20, 4}}) {
      const RouterOptions o = options_of(heads, top_k, groups, scaling);
      const std::string name = std::to_string(top_k) + " of " + std::to_string(heads) + " in " +
                               std::to_string(groups) + " groups" +
                               (scaling == GateScaling::kPaper ? ", paper" : "");
      const Tensor bias = uniform({heads}, -0.1, 0.1, 5), load = uniform({heads}, 0.05, 0.4, 6);
      cases.push_back(case_of(name, o, {}));
      cases.push_back(case_of(name + ", biased", o, {.bias = bias, .balance_load = {}}));
      cases.push_back(case_of(name + ", importance of other tokens", o, {.bias = {}, .balance_load = load}));
    }
  }
  return cases;
}

TEST_CASE("moh: the variation of importance is 0 where heads are used alike, and at most E / K - 1") {
  RouterOptions o = options_of(4, 2, 1);
  // Tokens select heads (0, 1) and (2, 3) in turns, with equal gates.
  const Tensor even = tensor_of<double>({2, 4}, {1, 1, 0, 0, 0, 0, 1, 1});
  CHECK(route_heads({}, Variable(even), {}, 2, o).balance.value().item() == Approx(0).margin(1e-15));
  const Tensor collapsed = tensor_of<double>({2, 4}, {1, 1, 0, 0, 1, 1, 0, 0});
  CHECK(route_heads({}, Variable(collapsed), {}, 2, o).balance.value().item() == Approx(1));
  o.top_k = 1;
  CHECK(route_heads({}, Variable(collapsed), {}, 2, o).balance.value().item() == Approx(3));
}

TEST_CASE("moh: the variation of importance gives unselected logits no gradient, with any gates") {
  for (const GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper, GateScaling::kBinary}) {
    const RouterOptions o = options_of(6, 3, 1, scaling);
    const Variable z(normal({kTokens, 6}, 3), true);
    const Routing r = route_heads({}, z, {}, kTokens, o);
    r.balance.backward();
    double largest = 0;
    for (std::int64_t i = 0; i < z.numel(); ++i) {
      const double gradient = std::abs(z.grad().data<double>()[i]);
      if (r.selected.data<std::uint8_t>()[i] == 0) CHECK(gradient == 0);
      largest = std::max(largest, gradient);
    }
    CHECK(largest > 1e-3);
  }
}

TEST_CASE("moh: over several micro-batches the variation of importance is that of all their tokens") {
  const RouterOptions o = options_of(6, 2, 2);
  const Tensor z = normal({8, 6}, 4);
  const Variable whole(z, true);
  const Routing all = route_heads({}, whole, {}, 8, o);
  all.balance.backward();
  double mean = 0;
  for (std::int64_t part = 0; part < 2; ++part) {
    const Variable half(z.slice(4 * part, 4 * part + 4), true);
    const Routing r = route_heads({}, half, {}, 4, o, {}, {}, kCpu, all.balance_load);
    r.balance.backward();
    mean += r.balance.value().item() / 2;
    for (std::int64_t i = 0; i < half.numel(); ++i)
      CHECK(half.grad().data<double>()[i] / 2 ==
            Approx(whole.grad().data<double>()[24 * part + i]).margin(1e-15));
  }
  CHECK(mean == Approx(all.balance.value().item()));
}

TEST_CASE("moh: a bias decides the selection, and a bias of 0 changes no choice") {
  const RouterOptions o{5, 0, 2};
  const Variable z(normal({40, 5}, 5));
  const Routing plain = route_heads({}, z, {}, 40, o);
  const auto biased = [&](std::initializer_list<double> bias) {
    return route_heads({}, z, {}, 40, o, {}, {}, kCpu, {}, tensor_of<double>({5}, bias));
  };
  CHECK(top_of(biased({0, 0, 0, 0, 0})) == top_of(plain));
  const Routing pushed = biased({0, 0, 2, 0, -2});
  CHECK(pushed.load.data<double>()[2] == 1);
  CHECK(pushed.load.data<double>()[4] == 0);
  for (std::int64_t t = 0; t < 40; ++t) CHECK(pushed.top.data<std::int32_t>()[2 * t] == 2);
  CHECK(pushed.probabilities.span<double>()[7] == plain.probabilities.span<double>()[7]);
  CHECK_THROWS_AS(route_heads({}, z, {}, 40, o, {}, {}, kCpu, {}, zeros({4}, DType::kFloat64)), ShapeError);
  CHECK_THROWS_AS(route_heads({}, z, {}, 40, o, {}, {}, kCpu, {}, zeros({5}, DType::kFloat32)), DTypeError);
}

TEST_CASE("moh: masks of shared heads have no variation of importance") {
  const Variable z(normal({3, 4}, 1)), masks(full({4}, 0.5, DType::kFloat64));
  CHECK_THROWS_WITH(route_masked_heads(z, z, {}, masks, 0.5, BalanceLoss::kCv),
                    "route_masked_heads: balance_loss: expected code, paper or shares, found cv");
}
