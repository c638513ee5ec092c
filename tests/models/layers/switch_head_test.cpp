// Language models whose values and outputs are mixtures of experts.

#include "models/layers/switch_head.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "autograd/gradcheck.h"
#include "autograd/node.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "models/llm/llama_layers.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/routed_llama.h"
#include "tests/models/llm/tiny_llama.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kTokens = 9;

LlamaConfig with_experts(std::int64_t experts, std::int64_t top_k) {
  LlamaConfig c = tiny_llama(routers::kNone);
  c.switch_head = {experts, top_k};
  return c;
}

/// Wide enough that a CPU projects the selected experts alone, of 128 tokens or more.
LlamaConfig wide() {
  LlamaConfig c = with_experts(4, 2);
  c.head_dim = 32;
  c.max_positions = 256;
  return c;
}

Variable& parameter(std::vector<NamedParameter>& of, std::string_view name) {
  return std::ranges::find(of, name, &NamedParameter::name)->variable;
}

/// Parameters of one value for one name, and an x of B sequences.
void stir(const Module& module) {
  for (const NamedParameter& p : module.parameters())
    fill_normal(p.variable.value(), initialisation_key(9, p.name), 0, 0.5);
}
Variable some_x(std::int64_t batch, std::int64_t tokens, std::int64_t width) {
  const Tensor x = empty({batch, tokens, width}, DType::kFloat64);
  fill_normal(x, {5, 1}, 0, 1);
  return Variable(x, true);
}

RopeTable table_of(const LlamaConfig& c, std::int64_t tokens) {
  return rope_table(tokens, c.head_dim, c.rope_theta, DType::kFloat64, kCpu);
}

void check_near(const Tensor& found, const Tensor& expected, double margin = 1e-12) {
  REQUIRE(found.shape() == expected.shape());
  for (std::int64_t i = 0; i < found.numel(); ++i)
    CHECK(found.data<double>()[i] == Approx(expected.data<double>()[i]).epsilon(1e-9).margin(margin));
}

/// The rows of expert `e` of each head: row (u E + e) d + j becomes u d + j.
Tensor rows_of_expert(const Tensor& w, std::int64_t e, std::int64_t experts, std::int64_t d) {
  Tensor found = empty({w.dim(0) / experts, w.dim(1)}, w.dtype());
  for (std::int64_t row = 0; row < found.dim(0); ++row)
    found.slice(row, row + 1)
        .copy_from(w.slice((row / d * experts + e) * d + row % d, (row / d * experts + e) * d + row % d + 1));
  return found;
}

/// Loss and gradients of a training step.
struct Step {
  Tensor loss;
  std::vector<Tensor> gradients;
};
Step step_of(const LlamaConfig& config, DType dtype, std::int64_t tokens) {
  Llama model(config, dtype);
  model.initialise(3);
  const Tensor ids = some_tokens(2, tokens);
  const Variable loss = cross_entropy(model.forward(ids, {.training = true}).logits, ids);
  loss.backward();
  Step step{loss.value(), {}};
  for (const NamedParameter& p : model.parameters()) step.gradients.push_back(p.variable.grad());
  return step;
}

void check_same(const Step& a, const Step& b) {
  CHECK(same_bits(a.loss, b.loss));
  REQUIRE(a.gradients.size() == b.gradients.size());
  for (std::size_t i = 0; i < a.gradients.size(); ++i) CHECK(same_bits(a.gradients[i], b.gradients[i]));
}

std::vector<std::string> faults_of(const LlamaConfig& config) {
  ConfigFaults faults("model.");
  check(config, faults);
  std::vector<std::string> texts;
  for (const ConfigFaults::Fault& f : faults.all())
    texts.push_back(f.keys.front() + ": " + f.expected + "; found " + f.found);
  return texts;
}

}  // namespace

TEST_CASE("models: experts have a projection each, and routers of all of them") {
  const LlamaConfig c = with_experts(3, 2);  // 4 heads of 4 that share 2 KV heads, width 16
  Llama model(c, DType::kFloat32);
  model.initialise(1);
  std::vector<NamedParameter> all = model.parameters();
  const std::string layer = "model.layers.1.self_attn.";
  CHECK(parameter(all, layer + "v_proj.weight").shape() == Shape{2 * 3 * 4, 16});
  CHECK(parameter(all, layer + "o_proj.weight").shape() == Shape{16, 4 * 3 * 4});
  CHECK(parameter(all, layer + "v_router.weight").shape() == Shape{2 * 3, 16});
  CHECK(parameter(all, layer + "o_router.weight").shape() == Shape{4 * 3, 16});
  CHECK(parameter(all, layer + "k_proj.weight").shape() == Shape{2 * 4, 16});
  CHECK_FALSE(is_routed(model));
}

TEST_CASE("models: gradients of attention with experts, by differences of its input") {
  for (const auto& [experts, top_k] : {std::pair{3, 1}, {4, 2}, {2, 2}}) {
    INFO(top_k << " of " << experts);
    LlamaConfig c = with_experts(experts, top_k);
    c.hidden = 6;
    const LlamaAttention layer(c, 0, DType::kFloat64);
    stir(layer);
    const GradCheckReport report = gradcheck(
        [&](const std::vector<Variable>& in) -> std::vector<Variable> {
          return {layer.forward(in[0], table_of(c, 4)).y};
        },
        {some_x(1, 4, c.hidden).value()});
    INFO(report.message);
    CHECK(report.passed);
  }
}

TEST_CASE("models: with all experts selected and routers of zeros, the layer is that of their means") {
  const LlamaConfig c = with_experts(2, 2), plain = tiny_llama(routers::kNone);
  const LlamaAttention layer(c, 0, DType::kFloat64), dense(plain, 0, DType::kFloat64);
  stir(layer);
  std::vector<NamedParameter> of_layer = layer.parameters(), of_dense = dense.parameters();
  for (const char* router : {"v_router.weight", "o_router.weight"})
    parameter(of_layer, router).value().fill(0);
  for (const char* same : {"q_proj.weight", "k_proj.weight"})
    parameter(of_dense, same).value().copy_from(parameter(of_layer, same).value());
  const Tensor v = parameter(of_layer, "v_proj.weight").value(),
               o = parameter(of_layer, "o_proj.weight").value();
  const Tensor mean_v = parameter(of_dense, "v_proj.weight").value(),
               mean_o = parameter(of_dense, "o_proj.weight").value();
  const Tensor first = rows_of_expert(v, 0, 2, 4), second = rows_of_expert(v, 1, 2, 4);
  for (std::int64_t i = 0; i < mean_v.numel(); ++i)
    mean_v.data<double>()[i] = (first.data<double>()[i] + second.data<double>()[i]) / 2;
  const std::int64_t columns = mean_o.dim(1), d = 4;
  for (std::int64_t i = 0; i < mean_o.numel(); ++i) {
    const double* row = o.data<double>() + i / columns * 2 * columns;
    const std::int64_t column = i % columns / d * 2 * d + i % d;
    mean_o.data<double>()[i] = (row[column] + row[column + d]) / 2;
  }
  const Variable x = some_x(2, kTokens, c.hidden);
  const RopeTable table = table_of(c, kTokens);
  check_near(layer.forward(x, table).y.value(), dense.forward(x, table).y.value());
}

TEST_CASE("models: experts that are not selected get no gradient, nor do their routers") {
  const LlamaConfig c = with_experts(4, 1);
  const LlamaAttention layer(c, 0, DType::kFloat64);
  stir(layer);
  const Variable x = some_x(1, 1, c.hidden), y = layer.forward(x, table_of(c, 1)).y;
  y.backward(full(y.shape(), 1.0, DType::kFloat64));
  std::vector<NamedParameter> parameters = layer.parameters();
  const auto rows_with_gradient = [&](std::string_view name) {
    const Tensor gradient = parameter(parameters, name).grad();
    std::int64_t count = 0;
    for (std::int64_t row = 0; row < gradient.dim(0); ++row) {
      const double* values = gradient.data<double>() + row * gradient.dim(1);
      count += std::any_of(values, values + gradient.dim(1), [](double v) { return v != 0; });
    }
    return count;
  };
  CHECK(rows_with_gradient("v_router.weight") == 2);    // one of 4 experts of each of 2 KV heads
  CHECK(rows_with_gradient("v_proj.weight") == 2 * 4);  // of width 4
  CHECK(rows_with_gradient("o_router.weight") == 4);    // and of each of 4 heads
  const Tensor o = parameter(parameters, "o_proj.weight").grad();
  std::int64_t columns = 0;
  for (std::int64_t i = 0; i < o.dim(1); ++i) columns += o.data<double>()[i] != 0;
  CHECK(columns == 4 * 4);
}

TEST_CASE("models: projecting the selected experts alone gives what projecting all of them does") {
  const LlamaConfig c = wide();
  constexpr std::int64_t kMany = 130;
  const LlamaAttention layer(c, 0, DType::kFloat64);
  stir(layer);
  const RopeTable table = table_of(c, kMany);
  std::vector<std::vector<Tensor>> results;
  for (const bool all : {false, true}) {
    const Variable x = some_x(1, kMany, c.hidden);
    std::vector<NamedParameter> parameters = layer.parameters();
    for (NamedParameter& p : parameters) p.variable.zero_grad();
    const Variable y = layer.forward(x, table, {.equal_rows = all}).y;
    Tensor seed = empty(y.shape(), DType::kFloat64);
    fill_normal(seed, {6, 1}, 0, 1);
    y.backward(seed);
    std::vector<Tensor>& found = results.emplace_back(std::vector{y.value(), x.grad()});
    for (const NamedParameter& p : parameters) found.push_back(p.variable.grad().clone());
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) check_near(results[0][i], results[1][i], 1e-9);
}

TEST_CASE("models: a step with experts has the same bits recomputed, and with several threads") {
  const int threads = num_threads();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    LlamaConfig c = wide();
    const Step step = step_of(c, dtype, 70);
    for (const Tensor& gradient : step.gradients) CHECK(gradient.defined());
    set_num_threads(3);
    check_same(step, step_of(c, dtype, 70));
    set_num_threads(threads);
    c.recompute = RecomputeLevel::kLayer;
    check_same(step, step_of(c, dtype, 70));
  }
}

TEST_CASE("models: decoding with experts agrees with the forward pass") {
  LlamaConfig c = wide();
  c.attention_gate = AttentionGate::kHead;
  const std::unique_ptr<Llama> model = made(c);
  const Tensor ids = some_tokens(1, 140), expected = model->forward(ids).logits.value();
  KvCache cache = model->make_cache(1, 140);
  CHECK(cache.layers.front().v().dim(1) == c.kv_heads);  // values after their mixture
  const auto decode_to = [&](std::int64_t begin, std::int64_t end) {
    const Tensor logits = model->decode(ids.select(0).slice(begin, end).reshape({1, end - begin}), cache);
    for (std::int64_t i = 0; i < c.vocab_size; ++i)
      CHECK(logits.data<float>()[i] ==
            Approx(expected.data<float>()[(end - 1) * c.vocab_size + i]).epsilon(1e-3).margin(1e-3));
  };
  decode_to(0, 130);
  for (std::int64_t t = 130; t < 140; ++t) decode_to(t, t + 1);
}

TEST_CASE("models: an observer sees no output matrix where it differs by token") {
  struct Seen : AttentionObserver {
    void observe(const AttentionTrace& trace) override { last = trace; }
    AttentionTrace last;
  } seen;
  const std::unique_ptr<Llama> model = made(with_experts(3, 2));
  model->forward(some_tokens(1, 3), {.observer = &seen});
  CHECK_FALSE(seen.last.output.defined());
  CHECK(seen.last.v.shape() == Shape{1, 3, 2, 4});
  CHECK(seen.last.heads.shape() == Shape{1, 3, 4, 4});
}

TEST_CASE("models: experts that contradict the model are refused") {
  using Texts = std::vector<std::string>;
  CHECK(faults_of(with_experts(4, 4)).empty());
  CHECK(faults_of(with_experts(1, 1)) == Texts{"model.switch_head.experts: 0, or 2 or more; found 1"});
  CHECK(faults_of(with_experts(-2, 1)) == Texts{"model.switch_head.experts: 0, or 2 or more; found -2"});
  CHECK(faults_of(with_experts(0, 2)) ==
        Texts{"model.switch_head.top_k: 0 without model.switch_head.experts; found 2"});
  for (const std::int64_t top_k : {0, 5})
    CHECK(
        faults_of(with_experts(4, top_k)) ==
        Texts{"model.switch_head.top_k: 1 to model.switch_head.experts (4); found " + std::to_string(top_k)});
  LlamaConfig c = with_experts(4, 2);
  c.qkv_bias = c.o_bias = true;
  CHECK(faults_of(c) == Texts{"model.qkv_bias: false with model.switch_head.experts, whose experts have no "
                              "bias; found true",
                              "model.o_bias: false with model.switch_head.experts, whose experts have no "
                              "bias; found true"});
  c = tiny_llama(routers::kLearned);
  c.switch_head = {4, 2};
  CHECK(faults_of(c) == Texts{"model.moh.router: none with model.switch_head.experts, which routes values "
                              "and outputs of all heads; found learned"});
  CHECK_THROWS_AS(Llama(c, DType::kFloat32), ValueError);
}
