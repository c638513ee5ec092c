// Mixture of Attention Heads (MoA, Zhang et al. 2022, arXiv 2210.05144), a baseline of the paper: no shared
// heads, one key and one value for all of them, gates that are the probabilities of the selected heads, its
// own form of the load-balance loss, and a z-loss.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/random.h"
#include "models/layers/moh_attention.h"
#include "models/layers/moh_config.h"
#include "ops/elementwise/add.h"
#include "ops/linalg/linear.h"
#include "ops/shape/reshape.h"
#include "tests/models/parameter_gradients.h"

using namespace moh;
using moh::test::check_parameter_gradients;

namespace {

constexpr std::int64_t kBatch = 2, kTokens = 5, kWidth = 6, kHeads = 4, kTopK = 2, kHeadDim = 3;

MohConfig moa() {
  return {.router = routers::kLearned,
          .num_shared = 0,
          .top_k = kTopK,
          .gate_scaling = GateScaling::kPaper,
          .balance_loss = BalanceLoss::kShares,
          .z_loss_weight = 0.001};
}

std::unique_ptr<MohAttention> make_layer() {
  auto layer = std::make_unique<MohAttention>(MohAttentionOptions{.width = kWidth,
                                                                  .heads = kHeads,
                                                                  .head_dim = kHeadDim,
                                                                  .routing = routing_of(moa(), kHeads, 0),
                                                                  .kv_heads = 1},
                                              DType::kFloat64);
  for (const NamedParameter& p : layer->parameters())
    fill_normal(p.variable.value(), initialisation_key(5, p.name), 0.0, 0.7);
  return layer;
}

Variable some_input() {
  const Tensor x = empty({kBatch, kTokens, kWidth}, DType::kFloat64);
  fill_normal(x, {3, 0}, 0.0, 1.0);
  return Variable(x, true);
}

using Vector = std::vector<double>;

/// Rows [first, first + count) of a parameter's matrix, times x, plus the bias if there is one.
Vector times(const MohAttention& layer, const std::string& name, std::int64_t first, std::int64_t count,
             const Vector& x) {
  Vector y(static_cast<std::size_t>(count));
  for (const NamedParameter& p : layer.parameters()) {
    const double* data = p.variable.value().data<double>();
    for (std::int64_t i = 0; i < count; ++i) {
      double& to = y[static_cast<std::size_t>(i)];
      if (p.name == name + ".bias") to += data[first + i];
      if (p.name != name + ".weight") continue;
      for (std::size_t j = 0; j < x.size(); ++j)
        to += data[(first + i) * static_cast<std::int64_t>(x.size()) + static_cast<std::int64_t>(j)] * x[j];
    }
  }
  return y;
}

Vector softmax(Vector z) {
  double sum = 0;
  for (double& v : z) sum += v = std::exp(v);
  for (double& v : z) v /= sum;
  return z;
}

/// The published formulas by plain loops: y, and the two auxiliary losses.
struct Expected {
  Vector y;
  double balance = 0, z_loss = 0;
};
Expected expected_of(const MohAttention& layer, const Tensor& x) {
  constexpr std::int64_t kAll = kBatch * kTokens;
  Expected result;
  Vector mean(kHeads), share(kHeads);
  const auto row = [&](std::int64_t t) {
    return Vector(x.data<double>() + t * kWidth, x.data<double>() + (t + 1) * kWidth);
  };
  for (std::int64_t t = 0; t < kAll; ++t) {
    const Vector z = times(layer, "wg", 0, kHeads, row(t)), p = softmax(z);
    std::vector<std::int64_t> order(kHeads);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, [&](auto a, auto b) { return z[a] > z[b]; });
    Vector mixed(kHeads * kHeadDim);
    for (std::int64_t i = 0; i < kTopK; ++i) {
      const std::int64_t h = order[i];
      share[h] += 1.0 / (kAll * kTopK);
      const Vector q = times(layer, "qkv", h * kHeadDim, kHeadDim, row(t));
      Vector scores;
      const std::int64_t first = t / kTokens * kTokens;
      for (std::int64_t s = first; s < first + kTokens; ++s) {
        const Vector k = times(layer, "qkv", kHeads * kHeadDim, kHeadDim, row(s));
        scores.push_back(std::inner_product(q.begin(), q.end(), k.begin(), 0.0) /
                         std::sqrt(double{kHeadDim}));
      }
      const Vector a = softmax(scores);
      for (std::int64_t s = first; s < first + kTokens; ++s) {
        const Vector v = times(layer, "qkv", (kHeads + 1) * kHeadDim, kHeadDim, row(s));
        for (std::int64_t c = 0; c < kHeadDim; ++c) mixed[h * kHeadDim + c] += p[h] * a[s - first] * v[c];
      }
    }
    const Vector y = times(layer, "proj", 0, kWidth, mixed);
    result.y.insert(result.y.end(), y.begin(), y.end());
    double sum = 0;
    for (std::int64_t h = 0; h < kHeads; ++h) {
      mean[h] += p[h] / kAll;
      sum += std::exp(z[h]);
    }
    result.z_loss += std::log(sum) * std::log(sum) / kAll;
  }
  result.balance = kHeads * std::inner_product(mean.begin(), mean.end(), share.begin(), 0.0);
  return result;
}

}  // namespace

TEST_CASE("moa: one key and one value for all heads, gated by the probabilities of the selected ones") {
  const auto layer = make_layer();
  const Variable x = some_input();
  const LayerOutput found = layer->forward(x);
  const Expected expected = expected_of(*layer, x.value());
  for (std::int64_t i = 0; i < found.y.numel(); ++i)
    CHECK(found.y.value().data<double>()[i] == Approx(expected.y[static_cast<std::size_t>(i)]).margin(1e-12));
  REQUIRE(found.routing.has_value());
  CHECK(found.routing->balance.value().item() == Approx(expected.balance));
  CHECK(found.routing->z_loss.value().item() == Approx(expected.z_loss));
  CHECK(found.routing->computed_heads == kTopK);

  // q and proj of D x H d each, k and v of D x d, the router's H x D.
  const std::int64_t all = kHeads * kHeadDim;
  CHECK(count_parameters(*layer) ==
        (kWidth + 1) * (all + 2 * kHeadDim) + (all + 1) * kWidth + kHeads * kWidth);
}

TEST_CASE("moa: gradients of the output and of both losses, with respect to every parameter") {
  const auto layer = make_layer();
  std::vector<NamedParameter> all = layer->parameters();
  const Variable x = some_input();
  all.push_back({"x", x});
  const Tensor weights = empty(x.shape(), DType::kFloat64);
  fill_normal(weights, {9, 0}, 0.0, 1.0);
  check_parameter_gradients(all, [&] {
    const LayerOutput output = layer->forward(x);
    const Variable of_y = linear(reshape(output.y, {1, -1}), Variable(weights.reshape({1, weights.numel()})));
    return add(add(reshape(of_y, {}), output.routing->balance), output.routing->z_loss);
  });
}
