// Kernels that the attention of a MoH-LLaMA3-8B layer launches, by lists and within KV groups: the table of
// docs/continue_tuning.md; and that gradients of one input are added up without any.

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/random.h"
#include "models/layers/head_routing.h"
#include "models/llm/llama_config.h"
#include "ops/attention/attention.h"
#include "ops/elementwise/scale.h"
#include "ops/linalg/linear.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/ops/device_ways.h"

using namespace moh;
using namespace moh::test;

namespace {

/// "attention_forward", or "scatter_heads 2" for a kernel that is launched twice; by name.
using Launches = std::vector<std::string>;

struct Passes {
  Launches forward, backward;
};

/// MoH-LLaMA3-8B's layer, 16 heads shared and 8 of 16 routed.
LlamaConfig moh_llama3_8b(RoutingKey rule) {
  LlamaConfig c{.hidden = 4096, .heads = 32, .kv_heads = 8, .head_dim = 128};
  c.moh = {.router = routers::kQueryNorm, .num_shared = 16, .top_k = 8};
  c.moh.routing = rule;
  return c;
}

Variable normal(std::int64_t tokens, std::int64_t heads, std::uint64_t stream, Device device) {
  Variable x(empty({1, tokens, heads, 128}, DType::kBFloat16, device), true);
  fill_normal(x.value(), {7, stream}, 0.0, 1.0);
  return x;
}

/// Without the conversions to float32 of gradients of leaves, which queries, keys and values of a model are
/// not.
Launches launches_of(const std::function<void()>& run) {
  const std::map<std::string, std::int64_t> before = sim::LaunchLog::instance().counts();
  run();
  Launches launches;
  for (const auto& [name, count] : sim::LaunchLog::instance().counts()) {
    const auto found = before.find(name);
    const std::int64_t more = count - (found == before.end() ? 0 : found->second);
    if (more > 0 && name != "convert")
      launches.push_back(more == 1 ? name : name + " " + std::to_string(more));
  }
  return launches;
}

/// Routing and attention of one layer, from queries, keys and values after the rotary embedding to the
/// outputs of the heads, times their gates, and back, with a gradient of the load-balance loss; without a
/// rule dense.
Passes passes_of(std::optional<RoutingKey> rule, std::int64_t tokens) {
  const Device gpu = open_gpu();
  const Variable q = normal(tokens, 32, 1, gpu), k = normal(tokens, 8, 2, gpu), v = normal(tokens, 8, 3, gpu),
                 dout = normal(tokens, 32, 4, gpu);
  std::vector<Variable> outputs;
  std::vector<Tensor> seeds = {dout.value()};
  Passes passes;
  passes.forward = launches_of([&] {
    if (!rule) return outputs.push_back(attend(q, k, v, nullptr, {.causal = true}));
    const LlamaConfig config = moh_llama3_8b(*rule);
    const HeadRouter router(config.hidden, config.kv_heads, config.head_dim, routing_of(config, 0),
                            {DType::kBFloat16, gpu});
    const HeadChoice choice = router({.x = dout, .queries = q});
    outputs = {attend(q, k, v, &choice, {.causal = true}), choice.routing.balance};
  });
  if (rule) seeds.push_back(full({}, 1, DType::kFloat32, gpu));
  passes.backward = launches_of([&] { backward(outputs, seeds); });
  return passes;
}

/// Above the 256 keys up to which a list is the work of one block, the kernels are those of any length.
constexpr std::int64_t kLengths[] = {272, 304};

}  // namespace

TEST_CASE("sim: kernels of dense attention of LLaMA3-8B's heads") {
  const Passes found = passes_of(std::nullopt, kLengths[0]);
  CHECK(found.forward == Launches{"attention_forward", "attention_tiles"});
  CHECK(found.backward == Launches{"attention_backward_keys", "attention_backward_rows", "attention_tiles"});
}

TEST_CASE("sim: kernels of MoH-LLaMA3-8B's attention by lists") {
  for (const std::int64_t tokens : kLengths) {
    const Passes found = passes_of(routings::kHeads, tokens);
    CHECK(found.forward == Launches{"attention_forward", "attention_tiles", "head_lists", "query_norm",
                                    "route_heads", "route_heads_means"});
    CHECK(found.backward == Launches{"add", "attention_backward_keys", "attention_backward_rows",
                                     "attention_tiles", "query_norm_gradient", "route_heads_gradient"});
  }
}

TEST_CASE("sim: kernels of MoH-LLaMA3-8B's attention within KV groups") {
  for (const std::int64_t tokens : kLengths) {
    const Passes found = passes_of(routings::kWithinGroups, tokens);
    CHECK(found.forward == Launches{"attention_forward", "attention_tiles", "gather_heads", "head_slots",
                                    "query_norm", "route_heads", "route_heads_means", "scatter_heads"});
    CHECK(found.backward == Launches{"add", "attention_backward_keys", "attention_backward_rows",
                                     "attention_tiles", "query_norm_gradient", "route_heads_gradient",
                                     "scatter_heads", "scatter_heads_gradient"});
  }
}

TEST_CASE("sim: linear layers of one input add up its gradient in their products") {
  const Device gpu = open_gpu();
  const auto run = [](Device device) {
    const auto parameter = [&](const Shape& shape, std::uint64_t stream) {
      Variable x(empty(shape, DType::kBFloat16, device), true);
      fill_normal(x.value(), {7, stream}, 0.0, 1.0);
      return x;
    };
    const Variable leaf = parameter({64, 32}, 1), w = parameter({16, 32}, 2), logits = parameter({8, 32}, 3);
    const Variable x = scale(leaf, 1);
    const Variable of_logits = packed_linear(x, {logits}, {}, DType::kFloat32), y = packed_linear(x, {w});
    const std::vector<Tensor> seeds = {full({64, 8}, 0.5, DType::kFloat32, device),
                                       full({64, 16}, 0.25, DType::kBFloat16, device)};
    backward(std::vector{of_logits, y}, seeds);
    return std::vector<Tensor>{leaf.grad().to(kCpu), w.grad().to(kCpu), logits.grad().to(kCpu)};
  };
  std::vector<Tensor> found;
  CHECK(launches_of([&] { found = run(gpu); }) == Launches{"fill 2", "scale 2"});
  const std::vector<Tensor> expected = run(kCpu);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::int64_t j = 0; j < found[i].numel(); ++j)
      CHECK(found[i].data<float>()[j] == Approx(expected[i].data<float>()[j]).epsilon(0.01).margin(0.02));
  }
}
