// Attention whose values and outputs are mixtures of experts against plain loops of Python
// (tests/golden/switch_head/make.py), in float64.

#include <catch2/catch.hpp>
#include <vector>

#include "autograd/node.h"
#include "models/llm/llama_layers.h"
#include "tests/golden/llama_layer.h"

using namespace moh;
using namespace moh::test;

namespace {

LlamaConfig switched_config(const Json& file, const Json& golden_case) {
  LlamaConfig c = one_layer(file, golden_case);
  c.switch_head = {golden_case["experts"], golden_case["top_k"]};
  if (golden_case["gate"] == "head") c.attention_gate = AttentionGate::kHead;
  return c;
}

/// Outputs [1, T, D] of the layer, whose cache gets `piece` tokens at a time.
Tensor decoded(const LlamaAttention& layer, const LlamaConfig& c, const RopeTable& table, const Tensor& x,
               std::int64_t piece) {
  const std::int64_t tokens = x.dim(1);
  LayerCache cache(1, c.kv_heads, tokens, c.head_dim, 0, DType::kFloat64, kCpu);
  Tensor outputs = empty(x.shape(), DType::kFloat64);
  for (std::int64_t begin = 0; begin < tokens; begin += piece) {
    const Tensor some = x.select(0).slice(begin, begin + piece).reshape({1, piece, x.dim(2)});
    const Variable y = layer.decode(Variable(some), table.rows(begin, piece), cache);
    outputs.select(0).slice(begin, begin + piece).copy_from(y.value().select(0));
  }
  return outputs;
}

}  // namespace

TEST_CASE("golden: mixtures of experts in values and outputs, gradients, and decoding") {
  const Json file = golden_layers("switch_head");
  CHECK(file["cases"].size() == 3);
  const std::int64_t tokens = file["tokens"];
  const RopeTable table = rope_table(tokens, file["head_dim"], file["theta"], DType::kFloat64, kCpu);
  for (const Json& each : file["cases"]) {
    INFO(each["top_k"] << " of " << each["experts"] << " experts of " << each["kv_heads"] << " KV heads");
    const LlamaConfig config = switched_config(file, each);
    const LlamaAttention layer(config, 0, Placement(DType::kFloat64));
    std::vector<NamedParameter> leaves = layer.parameters();
    CHECK(leaves.size() + 1 == each["tensors"].size());
    for (const NamedParameter& p : leaves) {
      const Tensor values = tensor_of_rows(each["tensors"][p.name]);
      REQUIRE(values.shape() == p.variable.shape());
      p.variable.value().copy_from(values);
    }
    const Shape shape{1, tokens, config.hidden};
    const Variable x(tensor_of_rows(each["tensors"]["x"], shape), true);
    const Tensor expected = tensor_of_rows(each["outputs"]);
    const Variable y = layer.forward(x, table).y;
    check_close(y.value(), expected);
    for (const std::int64_t piece : {1, 2, 3})
      check_close(decoded(layer, config, table, x.value(), piece), expected);
    y.backward(tensor_of_rows(each["cotangent"], shape));
    leaves.push_back({"x", x});
    for (const NamedParameter& leaf : leaves) CHECK(leaf.variable.grad().defined());
    check_derivatives(leaves, each, 0);
  }
}
