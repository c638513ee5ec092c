// The effect of a forward context in MohAttention: the same as in the attention of a decoder.

#include "models/layers/moh_attention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>

#include "autograd/node.h"
#include "core/error.h"
#include "core/random.h"
#include "models/layers/attention_observer.h"
#include "ops/attention/attention.h"

using namespace moh;

namespace {

constexpr std::int64_t kBatch = 2, kTokens = 5, kWidth = 12, kHeads = 6, kHeadDim = 4;

std::unique_ptr<MohAttention> make_layer(RouterKey router, std::int64_t number = 0,
                                         DType dtype = DType::kFloat64) {
  HeadRoutingOptions routing{routers::kNone, {kHeads, kHeads, 0}};
  if (router != routers::kNone) routing = {router, {kHeads, 2, 2}};
  auto layer = std::make_unique<MohAttention>(
      MohAttentionOptions{
          .width = kWidth, .heads = kHeads, .head_dim = kHeadDim, .routing = routing, .layer = number},
      dtype);
  for (const NamedParameter& p : layer->parameters())
    fill_normal(p.variable.value(), initialisation_key(7, p.name), 0.0, 0.5);
  return layer;
}

Variable some_input(DType dtype = DType::kFloat64) {
  const Tensor x = empty({kBatch, kTokens, kWidth}, dtype);
  fill_normal(x, {11, 0}, 0.0, 1.0);
  return Variable(x, true);
}

Tensor parameter(const MohAttention& layer, const std::string& name) {
  for (const NamedParameter& p : layer.parameters()) {
    if (p.name == name) return p.variable.value();
  }
  FAIL("no parameter " << name);
  return {};
}

Variable scales_of(const std::vector<double>& values) {
  return Variable(tensor_of<double>({kHeads}, values), true);
}

bool same(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.span<double>(), b.span<double>());
}

/// Keeps what an observer is shown of one layer.
struct Keeper : AttentionObserver {
  void observe(const AttentionTrace& shown) override {
    trace = shown;
    ++calls;
    trace.choice = nullptr;  // it lives no longer than the call
    routed = shown.choice != nullptr;
    if (!routed) return;
    gates = shown.choice->gates.value();
    selected = shown.choice->routing.selected;
  }
  AttentionTrace trace;
  Tensor gates, selected;
  bool routed = false;
  int calls = 0;
};

/// x W' + b by plain loops, for rows [first, first + count) of W.
double projected(const Tensor& x, std::int64_t row, const Tensor& weight, const Tensor& bias,
                 std::int64_t output) {
  double sum = bias.data<double>()[output];
  for (std::int64_t i = 0; i < x.dim(2); ++i)
    sum += x.data<double>()[row * x.dim(2) + i] * weight.data<double>()[output * x.dim(2) + i];
  return sum;
}

/// The part of a trace that qkv's rows from `first_row` on compute; of the selected heads alone, if these are
/// given.
void check_part(const Tensor& found, const Tensor& x, const MohAttention& layer, std::int64_t first_row,
                const Tensor& selected = {}) {
  REQUIRE(found.shape() == Shape{kBatch, kTokens, kHeads, kHeadDim});
  const Tensor weight = parameter(layer, "qkv.weight"), bias = parameter(layer, "qkv.bias");
  for (std::int64_t i = 0; i < found.numel(); ++i) {
    if (selected.defined() && selected.data<std::uint8_t>()[i / kHeadDim] == 0) continue;
    const std::int64_t row = i / (kHeads * kHeadDim), output = i % (kHeads * kHeadDim);
    CHECK(found.data<double>()[i] ==
          Approx(projected(x, row, weight, bias, first_row + output)).margin(1e-12));
  }
}

/// softmax(q k' / sqrt(d)) v of one head and token, over all tokens of its sequence, in place of `out` [d].
void plain_attention(const AttentionTrace& trace, std::int64_t row, std::int64_t head, double* out) {
  const auto at = [&](const Tensor& x, std::int64_t of_row) {
    return x.data<double>() + (of_row * kHeads + head) * kHeadDim;
  };
  std::fill_n(out, kHeadDim, 0.0);
  double sum = 0;
  const std::int64_t first = row / kTokens * kTokens;
  for (std::int64_t s = first; s < first + kTokens; ++s) {
    double score = 0;
    for (std::int64_t i = 0; i < kHeadDim; ++i) score += at(trace.q, row)[i] * at(trace.k, s)[i];
    const double weight = std::exp(score / std::sqrt(double{kHeadDim}));
    sum += weight;
    for (std::int64_t i = 0; i < kHeadDim; ++i) out[i] += weight * at(trace.v, s)[i];
  }
  for (std::int64_t i = 0; i < kHeadDim; ++i) out[i] /= sum;
}

}  // namespace

TEST_CASE("moh_attention: with all heads active, a MoH layer is the dense layer") {
  const auto dense = make_layer(routers::kNone), routed = make_layer(routers::kLearned);
  CHECK(dense->router() == nullptr);
  const Variable x = some_input();
  const LayerOutput expected = dense->forward(x), found = routed->forward(x, {.all_heads = true});
  CHECK(same(found.y.value(), expected.y.value()));
  CHECK_FALSE(found.routing.has_value());
  CHECK_FALSE(expected.routing.has_value());
  CHECK_FALSE(same(routed->forward(x).y.value(), expected.y.value()));
  CHECK(same(dense->forward(x, {.all_heads = true}).y.value(), expected.y.value()));
}

TEST_CASE("moh_attention: an observer sees what the layer computes, and changes no bit") {
  for (const RouterKey router : {routers::kNone, routers::kLearned}) {
    const auto layer = make_layer(router, 3);
    const Variable x = some_input();
    Keeper keeper;
    const LayerOutput watched = layer->forward(x, {.observer = &keeper});
    CHECK(same(watched.y.value(), layer->forward(x).y.value()));
    CHECK(keeper.calls == 1);
    const AttentionTrace& trace = keeper.trace;
    CHECK(trace.layer == 3);
    CHECK_FALSE(trace.causal);
    CHECK(keeper.routed == (router != routers::kNone));
    CHECK(same(trace.x, x.value()));
    CHECK(same(trace.output, parameter(*layer, "proj.weight")));
    check_part(trace.q, x.value(), *layer, 0, keeper.selected);
    check_part(trace.k, x.value(), *layer, kHeads * kHeadDim);
    check_part(trace.v, x.value(), *layer, 2 * kHeads * kHeadDim);
    for (std::int64_t pair = 0; pair < kBatch * kTokens * kHeads; ++pair) {
      double expected[kHeadDim] = {};
      plain_attention(trace, pair / kHeads, pair % kHeads, expected);
      const double gate = keeper.routed ? keeper.gates.to(DType::kFloat64).data<double>()[pair] : 1.0;
      for (std::int64_t i = 0; i < kHeadDim; ++i)
        CHECK(trace.heads.data<double>()[pair * kHeadDim + i] == Approx(gate * expected[i]).margin(1e-12));
    }
  }
}

TEST_CASE("moh_attention: an observer sees queries, keys and values of every floating dtype") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto layer = make_layer(routers::kNone, 0, dtype);
    Keeper keeper;
    layer->forward(some_input(dtype), {.observer = &keeper});
    CHECK(keeper.trace.q.dtype() == dtype);
    const Tensor again = attention(Variable(keeper.trace.q), Variable(keeper.trace.k),
                                   Variable(keeper.trace.v), {.causal = false})
                             .value();
    CHECK(std::ranges::equal(again.to(DType::kFloat32).span<float>(),
                             keeper.trace.heads.to(DType::kFloat32).span<float>()));
  }
}

TEST_CASE("moh_attention: head scales multiply the outputs of the heads") {
  for (const RouterKey router : {routers::kNone, routers::kLearned}) {
    const auto layer = make_layer(router, 1);
    const Variable x = some_input();
    const auto scaled = [&](const std::vector<double>& values) {
      const std::vector<Variable> scales = {{}, scales_of(values)};  // the layer's number is 1
      return layer->forward(x, {.head_scales = scales}).y.value();
    };
    const Tensor plain = layer->forward(x).y.value();
    CHECK(same(scaled(std::vector<double>(kHeads, 1.0)), plain));
    std::vector<double> without(kHeads, 1.0);
    without[1] = 0;
    const Tensor found = scaled(without);
    CHECK_FALSE(same(found, plain));
    const auto lacking = make_layer(router, 1);
    const Tensor proj = parameter(*lacking, "proj.weight");
    for (std::int64_t i = 0; i < proj.numel(); ++i) {
      if (i % proj.dim(1) / kHeadDim == 1) proj.data<double>()[i] = 0;
    }
    const Tensor expected = lacking->forward(x).y.value();
    for (std::int64_t i = 0; i < expected.numel(); ++i)
      CHECK(found.data<double>()[i] == Approx(expected.data<double>()[i]).margin(1e-12));
  }
}

TEST_CASE("moh_attention: head scales have gradients") {
  for (const RouterKey router : {routers::kNone, routers::kLearned}) {
    const auto layer = make_layer(router);
    const Variable x = some_input();
    const auto loss_of = [&](const Variable& scales) {
      const std::vector<Variable> of_layers = {scales};
      const Variable y = layer->forward(x, {.head_scales = of_layers}).y;
      const Tensor weights = empty(y.shape(), DType::kFloat64);
      double sum = 0;
      for (std::int64_t i = 0; i < weights.numel(); ++i) {
        weights.data<double>()[i] = std::sin(1.0 + static_cast<double>(i));
        sum += weights.data<double>()[i] * y.value().data<double>()[i];
      }
      if (grad_enabled()) y.backward(weights);
      return sum;
    };
    const std::vector<double> values = {1, 0, 0.5, -1, 2, 1};
    const Variable scales = scales_of(values);
    loss_of(scales);
    const NoGrad no_grad;
    for (std::size_t h = 0; h < values.size(); ++h) {
      std::vector<double> up = values, down = values;
      up[h] += 1e-5;
      down[h] -= 1e-5;
      const double slope = (loss_of(scales_of(up)) - loss_of(scales_of(down))) / 2e-5;
      CHECK(scales.grad().data<double>()[h] == Approx(slope).epsilon(1e-6).margin(1e-9));
    }
  }
}

TEST_CASE("moh_attention: selections can be imposed") {
  const auto layer = make_layer(routers::kLearned, 1);
  const Tensor top = empty({kBatch * kTokens, 2}, DType::kInt32);
  for (std::int64_t i = 0; i < top.numel(); ++i) top.data<std::int32_t>()[i] = i % 2 == 0 ? 3 : 1;
  const std::vector<Tensor> forced = {{}, top};
  Keeper keeper;
  layer->forward(some_input(), {.observer = &keeper, .forced_top = forced});
  for (std::int64_t pair = 0; pair < keeper.selected.numel(); ++pair) {
    const std::int64_t head = pair % kHeads;  // 2 shared ones, then routed ones
    const bool expected = head < 2 || head == 2 + 1 || head == 2 + 3;
    CHECK((keeper.selected.data<std::uint8_t>()[pair] != 0) == expected);
  }
}

TEST_CASE("moh_attention: routers that look at queries are refused") {
  CHECK_THROWS_WITH(make_layer(routers::kQueryNorm),
                    "moh_attention: router: expected one of none, learned, condition, static, found "
                    "query_norm; query_norm reads "
                    "the queries, which these models project after the routing");
}
