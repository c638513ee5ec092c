// Attention with sigmoid gates against plain loops of Python (tests/golden/gated_attention/make.py), in
// float64.

#include <catch2/catch.hpp>
#include <vector>

#include "models/layers/moh_attention.h"
#include "models/llm/llama_layers.h"
#include "tests/golden/json_layers.h"

using namespace moh;
using namespace moh::test;

namespace {

AttentionGate gate_of(const Json& golden_case) {
  return golden_case["gate"] == "head" ? AttentionGate::kHead : AttentionGate::kElement;
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i) sum += a.data<double>()[i] * b.data<double>()[i];
  return sum;
}

/// Output and gradients of the layer, which forward() calls for an x [1, T, D].
template <class Forward>
void check_layer(const Module& layer, const Json& file, const Json& golden_case, const Forward& forward) {
  const Shape shape{1, file["tokens"], file["width"]};
  std::vector<NamedParameter> leaves = layer.parameters();
  CHECK(leaves.size() + 1 == golden_case["tensors"].size());
  for (const NamedParameter& p : leaves)
    p.variable.value().copy_from(tensor_of_rows(golden_case["tensors"][p.name], p.variable.shape()));
  leaves.push_back({"x", Variable(tensor_of_rows(golden_case["tensors"]["x"], shape), true)});
  const Variable y = forward(leaves.back().variable);
  const Tensor expected = tensor_of_rows(golden_case["outputs"], shape);
  for (std::int64_t i = 0; i < expected.numel(); ++i)
    CHECK(y.value().data<double>()[i] == Approx(expected.data<double>()[i]).epsilon(1e-10).margin(1e-12));
  y.backward(tensor_of_rows(golden_case["cotangent"], shape));
  for (const NamedParameter& leaf : leaves) {
    INFO(leaf.name);
    const Tensor direction = tensor_of_rows(golden_case["directions"][leaf.name], leaf.variable.shape());
    CHECK(dot(leaf.variable.grad(), direction) ==
          Approx(golden_case["derivatives"][leaf.name].get<double>()).epsilon(1e-6).margin(1e-8));
  }
}

void check_language(const Json& file, const Json& golden_case) {
  LlamaConfig c;
  c.layers = 1;
  c.hidden = file["width"];
  c.heads = file["heads"];
  c.kv_heads = file["kv_heads"];
  c.head_dim = file["head_dim"];
  c.attention_gate = gate_of(golden_case);
  const LlamaAttention layer(c, 0, Placement(DType::kFloat64));
  const RopeTable table = rope_table(file["tokens"], c.head_dim, file["theta"], DType::kFloat64, kCpu);
  check_layer(layer, file, golden_case, [&](const Variable& x) { return layer.forward(x, table).y; });
}

void check_vision(const Json& file, const Json& golden_case) {
  MohAttentionOptions options;
  options.width = file["width"];
  options.heads = file["heads"];
  options.head_dim = file["head_dim"];
  options.gate = gate_of(golden_case);
  const MohAttention layer(options, Placement(DType::kFloat64));
  check_layer(layer, file, golden_case, [&](const Variable& x) { return layer.forward(x).y; });
}

}  // namespace

TEST_CASE("golden: attention with a sigmoid gate per head and per element, and gradients") {
  const Json file = golden_layers("gated_attention");
  CHECK(file["cases"].size() == 4);
  for (const Json& each : file["cases"]) {
    INFO(each["layer"] << ", gate per " << each["gate"]);
    if (each["layer"] == "language") {
      check_language(file, each);
    } else {
      check_vision(file, each);
    }
  }
}
