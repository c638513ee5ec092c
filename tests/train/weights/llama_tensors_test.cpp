#include "train/weights/llama_tensors.h"

#include <catch2/catch.hpp>

#include "models/llm/llama.h"

namespace moh {

namespace {

LlamaConfig small() {
  LlamaConfig c;
  c.vocab_size = 11;
  c.layers = 3;
  c.hidden = 8;
  c.intermediate = 6;
  c.heads = 4;
  c.kv_heads = 2;
  c.head_dim = 6;
  c.max_positions = 8;
  return c;
}

LlamaConfig routed(RouterKind router, std::vector<std::int64_t> shared, std::vector<std::int64_t> top_k) {
  LlamaConfig c = small();
  c.moh.router = router;
  c.moh.shared = std::move(shared);
  c.moh.top_k = std::move(top_k);
  return c;
}

}  // namespace

TEST_CASE("weights: the list of a model's tensors is that of the model") {
  LlamaConfig tied = small(), one_stage = routed(RouterKind::kLearned, {1}, {2});
  tied.tied_embeddings = true;
  one_stage.moh.two_stage = false;
  LlamaConfig wide_routers = routed(RouterKind::kLearned, {2}, {1});
  wide_routers.moh.router_precision = RouterPrecision::kFloat32;
  for (const LlamaConfig& config :
       {small(), tied, one_stage, wide_routers, routed(RouterKind::kLearned, {1}, {2}),
        routed(RouterKind::kLearned, {0, 4, 2}, {1, 0, 2}), routed(RouterKind::kQueryNorm, {2}, {1})}) {
    const Llama model(config, DType::kBFloat16);
    const std::vector<NamedParameter> parameters = model.parameters();
    const std::vector<TensorSpec> tensors = llama_tensors(config, DType::kBFloat16);
    REQUIRE(tensors.size() == parameters.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      CHECK(tensors[i].name == parameters[i].name);
      CHECK(tensors[i].shape == parameters[i].variable.shape());
      CHECK(tensors[i].dtype == parameters[i].variable.dtype());
    }
  }
}

}  // namespace moh
