#include "train/trainer/optim/parameter_groups.h"

#include <catch2/catch.hpp>

#include "autograd/node.h"
#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/tiny_llama.h"
#include "tests/support/same_bits.h"
#include "train/trainer/optim/adamw.h"
#include "train/trainer/optim/weight_average.h"

using namespace moh;

namespace {

std::unique_ptr<Llama> tiny_model(DType dtype = DType::kFloat32) {
  auto model = std::make_unique<Llama>(test::tiny_llama(), dtype);
  model->initialise(3);
  return model;
}

/// Forward and backward pass and update.
void step(const Llama& model, AdamW& optimizer, double learning_rate) {
  const Tensor tokens = empty({2, 8}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = i * 5 % 19;
  optimizer.zero_grad();
  cross_entropy(model.forward(tokens, {.training = true}).logits, tokens).backward();
  optimizer.set_learning_rate(learning_rate);
  optimizer.update(zeros({1}, DType::kFloat64));
  optimizer.count_update();
}

std::vector<Tensor> copies_of(const Llama& model) {
  std::vector<Tensor> values;
  for (const NamedParameter& p : model.parameters()) values.push_back(p.variable.value().clone());
  return values;
}

const std::vector<ParameterGroup> routers_alone = {{.match = {"*"}, .freeze = true},
                                                   {.match = {"*.wg*.weight"}}};

}  // namespace

TEST_CASE("optim: patterns of names match the whole name") {
  CHECK(matches("*", "a.b"));
  CHECK(matches("a.b", "a.b"));
  CHECK_FALSE(matches("a", "a.b"));
  CHECK_FALSE(matches("b", "a.b"));
  CHECK(matches("*.wg*.weight", "layers.0.self_attn.wg_0.weight"));
  CHECK_FALSE(matches("*.wg*.weight", "layers.0.mlp.gate_proj.weight"));
  CHECK(matches("layers.?.x", "layers.3.x"));
  CHECK_FALSE(matches("layers.?.x", "layers.13.x"));
  CHECK(matches("*a*a*b", "aaab"));
  CHECK_FALSE(matches("*a*a*b", "aaabc"));
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("**", ""));
}

TEST_CASE("optim: muon is for the matrices of the layers, without routers, embeddings and logits") {
  const auto model = tiny_model();
  std::vector<ParameterUse> uses = parameter_uses(*model, {}, 0.1);
  mark_hidden_matrices(*model, uses);
  const std::vector<NamedParameter> parameters = model->parameters();
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::string& name = parameters[i].name;
    INFO(name);
    CHECK(uses[i].orthogonal == (matches("model.layers.*_proj.weight", name)));
  }
}

TEST_CASE("optim: the last group that matches a parameter decides") {
  const auto model = tiny_model();
  const std::vector<ParameterUse> uses =
      parameter_uses(*model,
                     {{.match = {"*"}, .learning_rate_scale = 0.5},
                      {.match = {"*.q_proj.weight", "*norm*"}, .weight_decay = 0.25},
                      {.match = {"model.layers.1.*"}, .freeze = true}},
                     0.1);
  const std::vector<NamedParameter> parameters = model->parameters();
  REQUIRE(uses.size() == parameters.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::string& name = parameters[i].name;
    INFO(name);
    const bool second = matches("*.q_proj.weight", name) || matches("*norm*", name);
    if (name.starts_with("model.layers.1.")) {
      CHECK(uses[i].frozen);
      continue;
    }
    CHECK_FALSE(uses[i].frozen);
    CHECK(uses[i].learning_rate_scale == (second ? 1 : 0.5));
    const bool vector = parameters[i].variable.shape().rank() == 1;
    CHECK(uses[i].weight_decay == (vector ? 0 : second ? 0.25 : 0.1));
  }
}

TEST_CASE("optim: groups that decide nothing are refused") {
  const auto model = tiny_model();
  const auto refused = [&](const std::vector<ParameterGroup>& groups, const std::string& part) {
    CHECK_THROWS_WITH(parameter_uses(*model, groups, 0.1), Catch::Contains(part));
    CHECK_THROWS_AS(parameter_uses(*model, groups, 0.1), ConfigError);
  };
  refused({{.match = {"*.wg.weight", "*.wgg.weight"}}},
          "optim.groups[0]: match: expected a pattern of the model's");
  refused({{.match = {"*.wgg.weight"}}}, "\"*.wgg.weight\", which matches none");
  refused({{.match = {"*.wg.weight"}}, {.match = {"*"}}},
          "optim.groups[0]: match: expected a parameter that no later");
  refused({{.match = {}}}, "optim.groups[0]: match: expected patterns");
  refused({{.match = {"*"}, .freeze = true}}, "optim.groups: freeze: expected a parameter that is trained");
}

TEST_CASE("optim: frozen parameters get no gradient and no state, and keep every bit") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const auto model = tiny_model(dtype);
    const std::vector<Tensor> before = copies_of(*model);
    AdamW optimizer(*model, {.groups = routers_alone});
    for (int i = 0; i < 3; ++i) step(*model, optimizer, 0.01);
    const std::vector<NamedParameter> parameters = model->parameters();
    std::size_t trained = 0;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& [name, variable] = parameters[i];
      INFO(name);
      const bool router = matches("*.wg*.weight", name);
      trained += router ? 1 : 0;
      CHECK(variable.grad().defined() == router);
      CHECK(test::same_bits(variable.value(), before[i]) != router);
    }
    CHECK(optimizer.state().size() == trained * (dtype == DType::kBFloat16 ? 3 : 2));
    CHECK(optimizer.frozen().size() == parameters.size() - trained);

    const WeightAverage average(optimizer, 0.5);
    CHECK(average.trained().size() == trained);
    CHECK(average.state().size() == parameters.size());
    const WeightsScope scope(parameters, average.state());
    CHECK(test::same_bits(parameters[0].variable.value(), before[0]));
  }
}

TEST_CASE("optim: what is trained beside frozen parameters gets the gradients that it gets without them") {
  const auto all = tiny_model(), some = tiny_model();
  AdamW of_all(*all, {.clip_grad_norm = 0}), of_some(*some, {.clip_grad_norm = 0, .groups = routers_alone});
  step(*all, of_all, 0.01);
  step(*some, of_some, 0.01);
  const std::vector<NamedParameter> a = all->parameters(), b = some->parameters();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!matches("*.wg*.weight", a[i].name)) continue;
    INFO(a[i].name);
    const Tensor &expected = a[i].variable.grad(), &found = b[i].variable.grad();
    for (std::int64_t j = 0; j < expected.numel(); ++j)
      CHECK(found.data<float>()[j] == Approx(expected.data<float>()[j]).margin(1e-6));
  }
}

TEST_CASE("optim: a scaled learning rate is that rate") {
  const auto scaled = tiny_model(), plain = tiny_model();
  AdamW of_scaled(*scaled, {.groups = {{.match = {"*"}, .learning_rate_scale = 0.25}}}), of_plain(*plain, {});
  for (int i = 0; i < 3; ++i) {
    step(*scaled, of_scaled, 0.04);
    step(*plain, of_plain, 0.01);
  }
  const std::vector<NamedParameter> a = scaled->parameters(), b = plain->parameters();
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(test::same_bits(a[i].variable.value(), b[i].variable.value()));
}

TEST_CASE("optim: frozen layers are not computed again for the backward pass") {
  LlamaConfig config = test::tiny_llama();
  config.recompute = RecomputeLevel::kLayer;
  Llama model(config, DType::kFloat32);
  model.initialise(3);
  AdamW optimizer(model, {.groups = {{.match = {"*"}, .freeze = true}, {.match = {"lm_head.weight"}}}});
  const Tensor tokens = zeros({1, 4}, DType::kInt64);
  const LlamaOutput output = model.forward(tokens, {.training = true});
  CHECK(graph_op_names(output.logits) == std::vector<std::string>{"linear"});
}
