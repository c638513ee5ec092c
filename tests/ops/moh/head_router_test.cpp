#include "ops/moh/head_router.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kHeadRouterTokens = 7;

std::vector<double> softmax(const double* z, std::int64_t n) {
  std::vector<double> p(z, z + n);
  const double top = *std::max_element(p.begin(), p.end());
  for (double& v : p) v = std::exp(v - top);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& v : p) v /= sum;
  return p;
}

std::vector<std::int64_t> best(const std::vector<double>& p, std::int64_t k) {
  std::vector<std::int64_t> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return p[a] > p[b]; });
  order.resize(k);
  return order;
}

/// The best heads of each group, by the probabilities of all routed heads.
std::vector<std::int64_t> best_of_groups(const std::vector<double>& p, const RouterOptions& o) {
  std::vector<std::int64_t> found;
  const std::int64_t size = o.group_routed();
  for (std::int64_t first = 0; first < o.routed(); first += size) {
    const std::vector<double> group(p.begin() + first, p.begin() + first + size);
    for (const std::int64_t e : best(group, o.group_top_k())) found.push_back(first + e);
  }
  return found;
}

/// Probabilities that are each group's own, of those of all routed heads.
std::vector<double> softmax_of_groups(std::vector<double> p, const RouterOptions& o) {
  for (auto group = p.begin(); group != p.end(); group += o.group_routed()) {
    const double sum = std::accumulate(group, group + o.group_routed(), 0.0);
    std::for_each(group, group + o.group_routed(), [&](double& each) { each /= sum; });
  }
  return p;
}

/// The equations of route_heads, token by token: gates, then the balance loss, of `given` loads if there are.
std::vector<Tensor> head_router_reference(const std::vector<Tensor>& in, const RouterOptions& o,
                                          const Tensor& given = {}) {
  const std::int64_t experts = o.heads - o.num_shared;
  const bool paper = o.scaling == GateScaling::kPaper;
  Tensor gates = zeros({kHeadRouterTokens, o.heads}, DType::kFloat64);
  std::vector<double> load(experts), mean(experts);
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
    double* g = gates.data<double>() + t * o.heads;
    const bool both = o.num_shared > 0 && o.top_k > 0;
    std::vector<double> w = {paper && both ? 0.5 : 1.0, paper && both ? 0.5 : 1.0};
    if (in[2].defined()) {
      w = softmax(in[2].data<double>() + 2 * t, 2);
      if (!paper) w = {2 * w[0], 2 * w[1]};
    }
    std::vector<double> s = {1.0};
    if (in[0].defined()) s = softmax(in[0].data<double>() + t * o.num_shared, o.num_shared);
    const bool shares = o.scaling == GateScaling::kShares;
    for (std::int64_t h = 0; h < o.num_shared && !shares; ++h)
      g[h] = w[0] * (paper ? 1.0 : static_cast<double>(o.num_shared)) * s[h];
    if (o.top_k == 0) continue;
    std::vector<double> p = softmax(in[1].data<double>() + t * experts, experts);
    if (shares) p = softmax_of_groups(p, o);
    double kept = 0;
    for (std::int64_t e : best_of_groups(p, o)) kept += p[e];
    for (std::int64_t e : best_of_groups(p, o)) {
      g[o.num_shared + e] = shares ? p[e] / kept : w[1] * (paper ? p[e] : o.top_k * p[e] / kept);
      load[e] += 1.0 / kHeadRouterTokens;
    }
    for (std::int64_t e = 0; e < experts; ++e) {
      const auto group = p.begin() + e / o.group_routed() * o.group_routed();
      mean[e] += p[e] / std::accumulate(group, group + o.group_routed(), 0.0) / kHeadRouterTokens;
    }
  }
  if (o.top_k == 0) return {gates};
  if (given.defined()) std::ranges::copy(given.span<double>(), load.begin());
  const double dot = std::inner_product(load.begin(), load.end(), mean.begin(), 0.0);
  const double factor = o.balance_loss == BalanceLoss::kPaper ? 1.0 : static_cast<double>(o.group_routed());
  return {gates, full({}, factor * dot / static_cast<double>(o.groups), DType::kFloat64)};
}

std::vector<Tensor> logits_for(const RouterOptions& o, std::int64_t tokens = kHeadRouterTokens) {
  const RouterWidths widths = router_widths(o);
  const auto make = [&](std::int64_t width, std::uint64_t seed) {
    return width > 0 ? normal({tokens, width}, seed) : Tensor();
  };
  return {make(widths.shared, 1), make(widths.routed, 2), make(widths.type, 3)};
}

Routing route(const Inputs& in, const RouterOptions& o, std::int64_t tokens = kHeadRouterTokens,
              const Tensor& order = {}) {
  return route_heads(in[0], in[1], in[2], tokens, o, order);
}

Inputs variables(const std::vector<Tensor>& tensors) {
  Inputs result;
  for (const Tensor& tensor : tensors)
    result.push_back(tensor.defined() ? Variable(tensor, true) : Variable());
  return result;
}

using Heads = std::vector<std::int64_t>;

/// As many heads as are shared, the last ones and every other before them.
Heads some_heads(const RouterOptions& o) {
  Heads heads;
  for (std::int64_t h = o.heads - 1; static_cast<std::int64_t>(heads.size()) < o.num_shared; h -= 2)
    heads.push_back(h >= 0 ? h : h + o.heads + (o.heads % 2 == 0));
  return heads;
}

/// Shared heads, ascending, then the others.
Heads order_of(const RouterOptions& o, Heads shared) {
  std::ranges::sort(shared);
  Heads order = shared;
  for (std::int64_t h = 0; h < o.heads; ++h) {
    if (!std::ranges::binary_search(shared, h)) order.push_back(h);
  }
  return order;
}

/// x [N, H] with column i moved to order[i].
Tensor placed(const Tensor& x, const Heads& order) {
  Tensor y = empty_like(x);
  const auto heads = static_cast<std::int64_t>(order.size());
  for (std::int64_t i = 0; i < x.numel(); ++i)
    y.data<double>()[i / heads * heads + order[i % heads]] = x.data<double>()[i];
  return y;
}

/// The logits of logits_for() as route_heads_packed() takes them.
Tensor beside(const std::vector<Tensor>& logits) {
  std::vector<double> values;
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
    for (const Tensor& part : {logits[1], logits[2], logits[0]}) {
      if (!part.defined()) continue;
      const std::span<const double> row = part.slice(t, t + 1).span<double>();
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return tensor_of<double>({kHeadRouterTokens, static_cast<std::int64_t>(values.size()) / kHeadRouterTokens},
                           values);
}

/// The logits that lie beside each other, as logits_for() has them.
std::vector<Tensor> apart(const Tensor& packed, const RouterOptions& o) {
  const RouterWidths widths = router_widths(o);
  std::int64_t begin = 0;
  const auto take = [&](std::int64_t width) {
    if (width == 0) return Tensor();
    Tensor part = empty({kHeadRouterTokens, width}, DType::kFloat64);
    for (std::int64_t i = 0; i < part.numel(); ++i)
      part.data<double>()[i] = packed.data<double>()[i / width * packed.dim(1) + begin + i % width];
    begin += width;
    return part;
  };
  const Tensor routed = take(widths.routed), type = take(widths.type);
  return {take(widths.shared), routed, type};
}

}  // namespace

OP_CASES(route_heads) {
  OpCases cases;
  for (GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper}) {
    for (bool two_stage : {true, false}) {
      for (auto [heads, shared, top_k] : std::vector<std::array<std::int64_t, 3>>{
               {6, 3, 2}, {6, 2, 1}, {5, 0, 2}, {5, 1, 4}, {4, 2, 2}, {4, 4, 0}, {1, 1, 0}, {2, 1, 1}}) {
        RouterOptions o{heads, shared, top_k, scaling, two_stage};
        // The form of the balance loss is a choice of its own; both come with either scaling.
        o.balance_loss =
            two_stage == (scaling == GateScaling::kCode) ? BalanceLoss::kCode : BalanceLoss::kPaper;
        const std::vector<Tensor> logits = logits_for(o);
        // One head alone has no logits, and so nothing to differentiate.
        if (!logits[0].defined() && !logits[1].defined() && !logits[2].defined()) continue;
        cases.push_back(
            {.name = std::to_string(heads) + " heads, " + std::to_string(shared) + " shared, top " +
                     std::to_string(top_k) + (scaling == GateScaling::kPaper ? ", paper" : ", code") +
                     (two_stage ? ", two-stage" : ""),
             .inputs = logits,
             .run =
                 [o](const Inputs& in) {
                   const Routing r = route(in, o);
                   return r.balance.defined() ? Outputs{r.gates, r.balance} : Outputs{r.gates};
                 },
             .reference = [o](const std::vector<Tensor>& in) { return head_router_reference(in, o); },
             .low_precision = false});
      }
    }
  }
  for (const RouterOptions& o : {RouterOptions{6, 3, 2}, RouterOptions{6, 1, 3, GateScaling::kPaper},
                                 RouterOptions{5, 5, 0}, RouterOptions{5, 0, 2}}) {
    const Heads shared = some_heads(o);
    cases.push_back({.name = std::to_string(o.num_shared) + " shared heads, not the first ones",
                     .inputs = logits_for(o),
                     .run =
                         [=](const Inputs& in) {
                           const Variable& any = in[0].defined() ? in[0] : in[1];
                           const Routing r =
                               route(in, o, kHeadRouterTokens, head_order(o.heads, shared, any.device()));
                           return r.balance.defined() ? Outputs{r.gates, r.balance} : Outputs{r.gates};
                         },
                     .reference =
                         [=](const std::vector<Tensor>& in) {
                           std::vector<Tensor> outputs = head_router_reference(in, o);
                           outputs[0] = placed(outputs[0], order_of(o, shared));
                           return outputs;
                         },
                     .low_precision = false});
  }
  for (auto [heads, shared, top_k] :
       std::vector<std::array<std::int64_t, 3>>{{6, 3, 2}, {5, 0, 2}, {7, 1, 3}, {40, 20, 10}}) {
    const RouterOptions o{heads, shared, top_k};
    cases.push_back(
        {.name = std::to_string(heads) + " heads, " + std::to_string(shared) + " shared, packed",
         .inputs = {beside(logits_for(o))},
         .run =
             [o](const Inputs& in) {
               const Routing r = route_heads_packed(in[0], o);
               return Outputs{r.gates, r.balance};
             },
         .reference =
             [o](const std::vector<Tensor>& in) { return head_router_reference(apart(in[0], o), o); },
         .low_precision = false});
  }
  for (auto [heads, shared, top_k, groups] : std::vector<std::array<std::int64_t, 4>>{
           {12, 3, 6, 3}, {8, 4, 2, 2}, {6, 0, 2, 2}, {44, 2, 21, 21}, {6, 2, 4, 2}}) {
    for (const GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper, GateScaling::kShares}) {
      RouterOptions o{heads, shared, top_k, scaling};
      o.groups = groups;
      if (scaling == GateScaling::kPaper) o.balance_loss = BalanceLoss::kPaper;
      cases.push_back(
          {.name = std::to_string(o.group_top_k()) + " of " + std::to_string(o.group_routed()) +
                   " in each of " + std::to_string(groups) + " groups" +
                   (scaling == GateScaling::kPaper  ? ", paper"
                    : scaling == GateScaling::kCode ? ", code"
                                                    : ", shares"),
           .inputs = logits_for(o),
           .run =
               [o](const Inputs& in) {
                 const Routing r = route(in, o);
                 return Outputs{r.gates, r.balance};
               },
           .reference = [o](const std::vector<Tensor>& in) { return head_router_reference(in, o); },
           .low_precision = false});
    }
  }
  for (const RouterOptions& o : {RouterOptions{6, 3, 2}, RouterOptions{5, 0, 2, GateScaling::kPaper}}) {
    const Tensor load = uniform({o.heads - o.num_shared}, 0.1, 0.9, 4);
    cases.push_back(
        {.name = std::to_string(o.num_shared) + " shared heads, the loads of other tokens",
         .inputs = logits_for(o),
         .run =
             [=](const Inputs& in) {
               const Tensor given = load.to(in[1].dtype()).to(in[1].device());
               const Routing r = route_heads(in[0], in[1], in[2], kHeadRouterTokens, o, {}, {}, kCpu, given);
               return Outputs{r.gates, r.balance};
             },
         .reference = [=](const std::vector<Tensor>& in) { return head_router_reference(in, o, load); },
         .low_precision = false});
  }
  return cases;
}

TEST_CASE("moh: shared heads that are not the first ones are the same as permuting by hand") {
  for (const GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper, GateScaling::kBinary}) {
    const RouterOptions first{6, 2, 3, scaling};
    const Heads shared = {4, 1}, order = {1, 4, 0, 2, 3, 5};
    const std::vector<Tensor> logits = logits_for(first);
    Inputs a = variables(logits), b = variables(logits);
    const Routing plain = route(a, first), moved = route(b, first, kHeadRouterTokens, head_order(6, shared));
    const Tensor dy = normal({kHeadRouterTokens, 6}, 9);
    plain.gates.backward(dy);
    moved.gates.backward(placed(dy, order));
    const auto same = [](const Tensor& x, const Tensor& y) {
      return std::ranges::equal(x.span<double>(), y.span<double>());
    };
    CHECK(same(moved.gates.value(), placed(plain.gates.value(), order)));
    CHECK(same(moved.load, plain.load));
    for (std::int64_t i = 0; i < moved.selected.numel(); ++i)
      CHECK((moved.gates.value().data<double>()[i] != 0) == moved.selected.data<std::uint8_t>()[i]);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (logits[i].defined()) CHECK(same(a[i].grad(), b[i].grad()));
    }
  }
}

TEST_CASE("moh: an order of heads is a permutation of the layer's heads") {
  const Tensor order = head_order(5, Heads{3, 0});
  const auto numbers = order.span<std::int32_t>();
  CHECK(std::vector<std::int32_t>(numbers.begin(), numbers.end()) == std::vector{0, 3, 1, 2, 4});
  CHECK_THROWS_WITH(head_order(5, Heads{5}),
                    "head_order: shared_heads: expected heads from 0 to 4, each once, found 5");
  CHECK_THROWS_AS(head_order(5, Heads{1, 1}), ValueError);
  const RouterOptions o{5, 2, 1};
  CHECK_THROWS_AS(route(variables(logits_for(o)), o, kHeadRouterTokens, head_order(4, Heads{1})), ShapeError);
}

TEST_CASE("moh: float32 routing agrees with float64") {
  const RouterOptions o{12, 3, 4};
  const std::vector<Tensor> logits = logits_for(o, 300);
  std::vector<Tensor> single;
  for (const Tensor& z : logits) single.push_back(z.to(DType::kFloat32));
  std::vector<Tensor> wide;
  for (const Tensor& z : single) wide.push_back(z.to(DType::kFloat64));
  const Routing a = route(variables(single), o, 300), b = route(variables(wide), o, 300);
  for (std::int64_t i = 0; i < a.gates.numel(); ++i) {
    CHECK(a.gates.value().data<float>()[i] == Approx(b.gates.value().data<double>()[i]).margin(1e-6));
  }
  CHECK(a.balance.value().item() == Approx(b.balance.value().item()));
}

TEST_CASE("moh: zero router weights give every computed head the gate 1") {
  const RouterOptions o{8, 3, 2};
  std::vector<Tensor> logits = logits_for(o);
  for (const Tensor& z : logits) z.fill(0);
  const Routing r = route(variables(logits), o);
  for (std::int64_t i = 0; i < r.gates.numel(); ++i) {
    CHECK(r.gates.value().data<double>()[i] == Approx(r.selected.data<std::uint8_t>()[i]));
  }
  // All tokens choose the same heads here (ties go to the lowest), yet uniform probabilities make the loss K.
  CHECK(r.balance.value().item() == Approx(2));
}

TEST_CASE("moh: gates sum to w_1 S + w_2 K, and each token keeps S + K heads") {
  const RouterOptions o{8, 3, 2};
  const std::vector<Tensor> logits = logits_for(o);
  const Routing r = route(variables(logits), o);
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
    const std::vector<double> w = softmax(logits[2].data<double>() + 2 * t, 2);
    double sum = 0;
    int count = 0;
    for (std::int64_t h = 0; h < 8; ++h) {
      sum += r.gates.value().data<double>()[t * 8 + h];
      count += r.selected.data<std::uint8_t>()[t * 8 + h];
    }
    CHECK(sum == Approx(2 * w[0] * 3 + 2 * w[1] * 2));
    CHECK(count == 5);
  }
  CHECK(std::accumulate(r.load.span<double>().begin(), r.load.span<double>().end(), 0.0) == Approx(2));
}

TEST_CASE("moh: with K = 1 the task gives the router no gradient, with K = E the balance loss gives none") {
  const RouterOptions one{5, 2, 1};
  Inputs in = variables(logits_for(one));
  route(in, one).gates.backward(normal({kHeadRouterTokens, 5}, 9));
  for (double g : in[1].grad().span<double>()) CHECK(g == Approx(0).margin(1e-15));

  const RouterOptions all{5, 2, 3};
  in = variables(logits_for(all));
  const Routing r = route(in, all);
  CHECK(r.balance.value().item() == Approx(3));
  r.balance.backward();
  for (double g : in[1].grad().span<double>()) CHECK(g == Approx(0).margin(1e-15));
}

TEST_CASE("moh: unselected logits get no gradient from the gates of the released code") {
  const RouterOptions o{8, 2, 3};
  Inputs in = variables(logits_for(o));
  const Routing r = route(in, o);
  r.gates.backward(normal({kHeadRouterTokens, 8}, 9));
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
    for (std::int64_t e = 0; e < 6; ++e) {
      if (!r.selected.data<std::uint8_t>()[t * 8 + 2 + e])
        CHECK(in[1].grad().data<double>()[t * 6 + e] == 0.0);
    }
  }
}

TEST_CASE("moh: ties go to the lowest head, exactly K heads are chosen, also among NaNs and infinities") {
  const RouterOptions o{4, 0, 2};
  const double nan = std::nan(""), inf = HUGE_VAL;
  const Tensor z = tensor_of<double>({4, 4}, {1, 1, 1, 1, 0, 1, 1, 1, nan, nan, 0, nan, -inf, -inf, -inf, 0});
  const Routing r = route_heads({}, Variable(z), {}, 4, o);
  const auto top = r.top.span<std::int32_t>();
  CHECK(std::vector<std::int32_t>(top.begin(), top.end()) ==
        std::vector<std::int32_t>{0, 1, 1, 2, 2, 0, 3, 0});
}

TEST_CASE(
    "moh: the choice is that of a stable sort, for any number of tokens and heads, with every instruction "
    "set",
    "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    for (const std::int64_t experts : {1, 7, 16, 17, 40}) {
      for (const std::int64_t tokens : {1, 15, 33}) {
        const std::int64_t k = (experts + 1) / 2;
        const Tensor z = normal({tokens, experts}).to(DType::kFloat32);
        for (float& logit : z.span<float>())
          logit = std::round(2 * logit) * 0.25F;  // ties, and zeros of both signs
        const Routing r = route_heads({}, Variable(z), {}, tokens, {experts, 0, k});
        std::int64_t wrong = 0;
        for (std::int64_t t = 0; t < tokens; ++t) {
          const float* row = z.data<float>() + t * experts;
          std::vector<std::int32_t> order(static_cast<std::size_t>(experts));
          std::iota(order.begin(), order.end(), 0);
          std::ranges::stable_sort(order, [&](std::int32_t a, std::int32_t b) { return row[a] > row[b]; });
          for (std::int64_t i = 0; i < experts; ++i) {
            const std::int32_t e = order[static_cast<std::size_t>(i)];
            wrong += i < k && r.top.data<std::int32_t>()[t * k + i] != e;
            wrong += r.selected.data<std::uint8_t>()[t * experts + e] != (i < k);
          }
        }
        INFO(cpu_isa_name(isa) << ", " << tokens << " tokens, " << experts << " heads");
        CHECK(wrong == 0);
        CHECK(std::accumulate(r.load.span<float>().begin(), r.load.span<float>().end(), 0.0) ==
              Approx(static_cast<double>(k)));
      }
    }
  }
}

TEST_CASE(
    "moh: the balance loss has either form with any gates, and both their optimum where heads are alike") {
  for (const GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper, GateScaling::kBinary}) {
    RouterOptions o{8, 2, 3, scaling};
    std::vector<Tensor> logits = logits_for(o);
    logits[1].fill(0);  // P_i = 1 / 6 whatever is selected
    for (const auto& [form, optimum] :
         {std::pair{BalanceLoss::kCode, 3.0}, std::pair{BalanceLoss::kPaper, 0.5}}) {
      o.balance_loss = form;
      CHECK(route(variables(logits), o).balance.value().item() == Approx(optimum));
    }
  }
  const RouterOptions code{8, 2, 3};
  RouterOptions paper = code;
  paper.balance_loss = BalanceLoss::kPaper;
  Inputs a = variables(logits_for(code)), b = variables(logits_for(code));
  route(a, code).balance.backward();
  route(b, paper).balance.backward();
  for (std::int64_t i = 0; i < a[1].grad().numel(); ++i)
    CHECK(a[1].grad().data<double>()[i] == Approx(6 * b[1].grad().data<double>()[i]));
}

TEST_CASE("moh: straight-through gates are 1, and their gradient goes through the softmax") {
  const RouterOptions o{5, 2, 1, GateScaling::kBinary};
  const std::vector<Tensor> logits = logits_for(o);
  REQUIRE_FALSE(logits[0].defined());
  REQUIRE_FALSE(logits[2].defined());
  Inputs in = variables(logits);
  const Routing r = route(in, o);
  for (std::int64_t i = 0; i < r.gates.numel(); ++i) {
    CHECK(r.gates.value().data<double>()[i] == r.selected.data<std::uint8_t>()[i]);
  }
  const Tensor dy = normal({kHeadRouterTokens, 5}, 9);
  r.gates.backward(dy);
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
    const std::vector<double> p = softmax(logits[1].data<double>() + 3 * t, 3);
    const double* u = dy.data<double>() + 5 * t + 2;
    const double mean = p[0] * u[0] + p[1] * u[1] + p[2] * u[2];
    for (int e = 0; e < 3; ++e)
      CHECK(in[1].grad().data<double>()[3 * t + e] == Approx(p[e] * (u[e] - mean)).margin(1e-15));
  }

  RouterOptions blocked = o;
  blocked.straight_through = false;
  Inputs cut = variables(logits);
  route(cut, blocked).gates.backward(dy);
  for (double g : cut[1].grad().span<double>()) CHECK(g == 0.0);
}

TEST_CASE("moh: a forced choice replaces the router's own") {
  const RouterOptions o{4, 1, 2};
  const Inputs in = variables(logits_for(o));
  std::vector<std::int32_t> choice;
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) choice.insert(choice.end(), {2, 0});
  const Routing r = route_heads(in[0], in[1], in[2], kHeadRouterTokens, o, {},
                                tensor_of<std::int32_t>({kHeadRouterTokens, 2}, choice));
  CHECK(r.selected.data<std::uint8_t>()[1] == 1);
  CHECK(r.selected.data<std::uint8_t>()[2] == 0);
  CHECK(r.selected.data<std::uint8_t>()[3] == 1);
  choice[0] = 3;
  CHECK_THROWS_AS(route_heads(in[0], in[1], in[2], kHeadRouterTokens, o, {},
                              tensor_of<std::int32_t>({kHeadRouterTokens, 2}, choice)),
                  ValueError);
}

TEST_CASE("moh: inside groups, gates are those of the layer with the same selection") {
  for (const GateScaling scaling : {GateScaling::kCode, GateScaling::kPaper, GateScaling::kBinary}) {
    const RouterOptions whole{12, 4, 4, scaling};
    RouterOptions inside = whole;
    inside.groups = 4;
    const std::vector<Tensor> logits = logits_for(whole);
    Inputs a = variables(logits), b = variables(logits);
    const Routing r = route(a, inside),
                  forced = route_heads(b[0], b[1], b[2], kHeadRouterTokens, whole, {}, r.top);
    for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
      for (std::int64_t g = 0; g < 4; ++g) {
        const double* z = logits[1].data<double>() + t * 8 + 2 * g;
        CHECK(r.top.data<std::int32_t>()[t * 4 + g] == 2 * g + (z[1] > z[0]));
      }
    }
    const auto same = [](const Tensor& x, const Tensor& y) {
      return std::ranges::equal(x.span<double>(), y.span<double>());
    };
    CHECK(same(r.gates.value(), forced.gates.value()));
    CHECK(same(r.load, forced.load));
    const Tensor dy = normal({kHeadRouterTokens, 12}, 9);
    r.gates.backward(dy);
    forced.gates.backward(dy);
    CHECK(same(a[1].grad(), b[1].grad()));
  }
}

TEST_CASE(
    "moh: shares of the selected heads sum to 1, also where a group's logits are far below the others") {
  RouterOptions o{12, 4, 4, GateScaling::kShares};
  o.groups = 4;
  std::vector<Tensor> logits = logits_for(o);
  REQUIRE_FALSE(logits[0].defined());
  REQUIRE_FALSE(logits[2].defined());
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t)
    for (const std::int64_t e : {2, 3}) logits[1].data<double>()[8 * t + e] -= 1000;
  Inputs in = {{}, Variable(logits[1].to(DType::kFloat32), true), {}};
  const Routing r = route(in, o);
  r.gates.backward(normal({kHeadRouterTokens, 12}, 9).to(DType::kFloat32));
  CHECK(in[1].grad().all_finite());
  for (std::int64_t t = 0; t < kHeadRouterTokens; ++t) {
    const float* gates = r.gates.value().data<float>() + 12 * t;
    CHECK(std::accumulate(gates, gates + 4, 0.0F) == 0);  // shared heads have no part
    CHECK(std::accumulate(gates + 4, gates + 12, 0.0F) == Approx(1));
    CHECK(std::max(gates[6], gates[7]) > 0.1F);
  }
  const RouterOptions one{6, 0, 2, GateScaling::kShares}, code{6, 0, 2, GateScaling::kCode};
  const std::vector<Tensor> same = logits_for(one);
  const Tensor shares = route(variables(same), one).gates.value(),
               gates = route(variables(same), code).gates.value();
  for (std::int64_t i = 0; i < shares.numel(); ++i)
    CHECK(2 * shares.data<double>()[i] == Approx(gates.data<double>()[i]));
}

TEST_CASE("moh: the balance loss inside groups is the mean of those of the groups, in each form") {
  for (const auto& [form, optimum] :
       {std::pair{BalanceLoss::kCode, 2.0}, {BalanceLoss::kPaper, 0.5}, {BalanceLoss::kShares, 1.0}}) {
    RouterOptions o{15, 3, 6}, one{4, 0, 2};
    o.groups = 3;
    o.balance_loss = one.balance_loss = form;
    std::vector<Tensor> logits = logits_for(o);
    double mean = 0;
    for (std::int64_t g = 0; g < 3; ++g) {
      Tensor of_group = empty({kHeadRouterTokens, 4}, DType::kFloat64);
      for (std::int64_t i = 0; i < of_group.numel(); ++i)
        of_group.data<double>()[i] = logits[1].data<double>()[i / 4 * 12 + 4 * g + i % 4];
      mean += route_heads({}, Variable(of_group), {}, kHeadRouterTokens, one).balance.value().item() / 3;
    }
    CHECK(route(variables(logits), o).balance.value().item() == Approx(mean));
    logits[1].fill(0);
    CHECK(route(variables(logits), o).balance.value().item() == Approx(optimum));
  }
}

TEST_CASE("moh: groups are equal parts, and a forced choice keeps as many heads of each") {
  RouterOptions o{8, 2, 4};
  o.groups = 4;
  CHECK_THROWS_WITH(router_widths(o),
                    "route_heads: groups: expected a divisor of the 6 routed heads, found 4");
  o.groups = 3;
  CHECK_THROWS_WITH(router_widths(o), "route_heads: top_k: expected a multiple of the 3 groups, found 4");
  o.groups = 2;
  const Inputs in = variables(logits_for(o));
  const auto forced = [&](std::vector<std::int32_t> first) {
    std::vector<std::int32_t> choice;
    for (std::int64_t t = 0; t < kHeadRouterTokens; ++t)
      choice.insert(choice.end(), first.begin(), first.end());
    return route_heads(in[0], in[1], in[2], kHeadRouterTokens, o, {},
                       tensor_of<std::int32_t>({kHeadRouterTokens, 4}, choice));
  };
  CHECK(forced({2, 0, 3, 5}).selected.data<std::uint8_t>()[4] == 1);
  CHECK_THROWS_WITH(forced({2, 3, 1, 5}),
                    Catch::Contains("2 different heads of each group in turn, found head 3 in group 0"));
  CHECK_THROWS_AS(forced({2, 2, 3, 5}), ValueError);
}

TEST_CASE("moh: head counts that contradict each other are refused") {
  CHECK_THROWS_WITH(router_widths({8, 3, 6}),
                    "route_heads: top_k: expected 0 to 5 (the routed heads), found 6");
  CHECK_THROWS_WITH(router_widths({8, 3, 0}),
                    "route_heads: num_shared: expected 8 when no head is routed, found 3");
  CHECK_THROWS_AS(router_widths({8, 9, 0}), ValueError);
  CHECK_THROWS_AS(router_widths({0, 0, 0}), ValueError);
  const RouterOptions o{6, 2, 2};
  Inputs in = variables(logits_for(o));
  CHECK_THROWS_AS(route_heads({}, in[1], in[2], kHeadRouterTokens, o), ValueError);
  CHECK_THROWS_AS(route_heads(in[0], in[1], in[2], kHeadRouterTokens + 1, o), ShapeError);
}
