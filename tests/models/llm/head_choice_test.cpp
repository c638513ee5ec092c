// The choice of heads: shared ones, active ones, and their factors.

#include <catch2/catch.hpp>

#include "autograd/node.h"
#include "core/error.h"
#include "models/llm/llama.h"
#include "tests/models/llm/move_heads.h"

using namespace moh;

namespace {

constexpr std::int64_t kHeads = 6, kWidth = 4, kHidden = 16;

LlamaConfig small_config(RouterKey router = routers::kNone) {
  LlamaConfig c{.vocab_size = 11,
                .layers = 2,
                .hidden = kHidden,
                .intermediate = 12,
                .heads = kHeads,
                .kv_heads = kHeads,
                .head_dim = kWidth,
                .max_positions = 16,
                .init_std = 0.3};
  c.moh.router = router;
  if (router != routers::kNone) {
    c.moh.num_shared = 2;
    c.moh.top_k = 2;
  }
  return c;
}

std::unique_ptr<Llama> make_model(const LlamaConfig& config) {
  auto model = std::make_unique<Llama>(config, DType::kFloat64);
  model->initialise(7);
  return model;
}

Tensor some_tokens() {
  return tensor_of<std::int64_t>({2, 5}, {1, 2, 3, 4, 5, 10, 9, 8, 7, 6});
}

void copy_parameters(const Llama& from, const Llama& to) {
  const auto source = from.parameters();
  for (const NamedParameter& p : to.parameters()) {
    for (const NamedParameter& s : source) {
      if (s.name == p.name) p.variable.value().copy_from(s.variable.value());
    }
  }
}

void check_close(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  for (std::int64_t i = 0; i < a.numel(); ++i)
    CHECK(a.data<double>()[i] == Approx(b.data<double>()[i]).margin(1e-12));
}

Variable scales_of(const std::vector<double>& values) {
  return Variable(tensor_of<double>({kHeads}, values), true);
}

}  // namespace

TEST_CASE("llama: shared heads that are listed are the same as moving the weights of the heads") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const Heads order = {1, 4, 0, 2, 3, 5};
    const auto first = make_model(small_config(router));
    LlamaConfig config = small_config(router);
    config.moh.shared_heads.every = {4, 1};
    const auto listed = make_model(config);
    copy_parameters(*first, *listed);
    move_heads(*listed, {order, order});
    const LlamaOutput a = first->forward(some_tokens()), b = listed->forward(some_tokens());
    check_close(a.logits.value(), b.logits.value());
    check_close(a.routing[1].load, b.routing[1].load);
    for (const auto* output : {&a, &b}) {
      const Tensor seed = zeros(output->logits.shape(), DType::kFloat64);
      for (std::int64_t i = 0; i < seed.numel(); ++i) seed.data<double>()[i] = std::sin(1.0 + i);
      output->logits.backward(seed);
    }
    check_close(first->parameters().front().variable.grad(), listed->parameters().front().variable.grad());
  }
}

TEST_CASE("llama: lists of shared heads are checked") {
  LlamaConfig config = small_config(routers::kLearned);
  config.moh.shared_heads.each = {{0, 1}, {2}};
  CHECK_THROWS_WITH(
      require_valid(config),
      "llama: moh.shared_heads: expected as many heads as moh.num_shared says (2), found 1 (layer 1)");
  config.moh.shared_heads.each = {{0, 1}, {2, 6}};
  CHECK_THROWS_AS(require_valid(config), ValueError);
  config.moh.shared_heads.each = {{0, 1}, {2, 3}, {4, 5}};
  CHECK_THROWS_AS(require_valid(config), ValueError);
  config.moh.shared_heads.each = {{0, 1}, {2, 5}};
  require_valid(config);
  CHECK(routing_of(config, 1).shared_heads == Heads{2, 5});
}

TEST_CASE("llama: with all heads on, a MoH model is the dense model") {
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    for (const bool recompute : {false, true}) {
      const auto dense = make_model(small_config());
      LlamaConfig config = small_config(router);
      config.recompute = recompute ? RecomputeLevel::kLayer : RecomputeLevel::kNone;
      const auto routed = make_model(config);
      const LlamaOutput expected = dense->forward(some_tokens());
      const LlamaOutput found = routed->forward(some_tokens(), {.all_heads = true});
      CHECK(found.routing.empty());
      CHECK(std::ranges::equal(found.logits.value().span<double>(), expected.logits.value().span<double>()));
      CHECK_FALSE(std::ranges::equal(routed->forward(some_tokens()).logits.value().span<double>(),
                                     expected.logits.value().span<double>()));
    }
  }
}

TEST_CASE("llama: recomputing changes no bit where projections of selected heads are taken") {
  for (const StraightThrough mode : {StraightThrough::kSelected, StraightThrough::kAll}) {
    LlamaConfig config = small_config(routers::kQueryNorm);
    config.heads = config.kv_heads = 4;
    config.head_dim = 32;  // half of the heads of 160 tokens: head_projection_pays
    config.max_positions = 80;
    config.moh.num_shared = 1;
    config.moh.top_k = 1;
    config.moh.straight_through = mode;
    const Tensor tokens = empty({2, 80}, DType::kInt64);
    for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = i * i % 11;
    std::vector<Tensor> results[2];
    for (const bool recompute : {false, true}) {
      config.recompute = recompute ? RecomputeLevel::kLayer : RecomputeLevel::kNone;
      Llama model(config, DType::kFloat32);
      model.initialise(7);
      const LlamaOutput output = model.forward(tokens);
      const std::int64_t computed = mode == StraightThrough::kAll ? 4 : 2;
      for (const LayerRouting& layer : output.routing) CHECK(layer.computed_heads == computed);
      const Tensor seed = empty(output.logits.shape(), DType::kFloat32);
      fill_normal(seed, {1, 2}, 0.0, 1.0);
      output.logits.backward(seed);
      results[recompute].push_back(output.logits.value());
      for (const NamedParameter& p : model.parameters()) results[recompute].push_back(p.variable.grad());
      const NoGrad no_grad;
      for (const LayerRouting& layer : model.forward(tokens).routing) CHECK(layer.computed_heads == 2);
    }
    REQUIRE(results[0].size() == results[1].size());
    for (std::size_t i = 0; i < results[0].size(); ++i)
      CHECK(std::ranges::equal(results[0][i].span<float>(), results[1][i].span<float>()));
  }
}

TEST_CASE("llama: head scales multiply the outputs of the heads, and have gradients") {
  const auto model = make_model(small_config());
  const auto loss_of = [](const Llama& llama, const std::vector<Variable>& scales) {
    const LlamaOutput output = llama.forward(some_tokens(), {.head_scales = scales});
    const Tensor weights = empty(output.logits.shape(), DType::kFloat64);
    for (std::int64_t i = 0; i < weights.numel(); ++i) weights.data<double>()[i] = std::sin(1.0 + i);
    double sum = 0;
    for (std::int64_t i = 0; i < weights.numel(); ++i)
      sum += weights.data<double>()[i] * output.logits.value().data<double>()[i];
    if (grad_enabled()) output.logits.backward(weights);
    return sum;
  };
  const std::vector<double> values = {1, 0, 0.5, -1, 2, 1};
  for (const bool recompute : {false, true}) {
    LlamaConfig config = small_config();
    config.recompute = recompute ? RecomputeLevel::kLayer : RecomputeLevel::kNone;
    const auto llama = make_model(config);
    std::vector<Variable> scales = {{}, scales_of(values)};
    loss_of(*llama, scales);
    const NoGrad no_grad;
    for (std::size_t h = 0; h < values.size(); ++h) {
      std::vector<double> up = values, down = values;
      up[h] += 1e-5;
      down[h] -= 1e-5;
      const double slope =
          (loss_of(*llama, {{}, scales_of(up)}) - loss_of(*llama, {{}, scales_of(down)})) / 2e-5;
      CHECK(scales[1].grad().data<double>()[h] == Approx(slope).epsilon(1e-6).margin(1e-9));
    }
  }
  const std::vector<Variable> too_few = {scales_of(values)};
  CHECK_THROWS_AS(model->forward(some_tokens(), {.head_scales = too_few}), ShapeError);
}
