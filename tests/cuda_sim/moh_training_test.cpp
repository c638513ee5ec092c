// Gates and their gradients on the simulated GPU: the checks of the CPU.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>

#include "autograd/node.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/layers/straight_through_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/train/trainer/run/gate_training_checks.h"

using namespace moh;
using namespace moh::test;

namespace {

/// A model inside KV groups: of each 4 heads one is shared and 1 of the others is kept.
std::unique_ptr<Llama> model_within_groups(RouterKey router, Device device) {
  LlamaConfig c{.vocab_size = 19,
                .layers = 2,
                .hidden = 24,
                .intermediate = 36,
                .heads = 8,
                .kv_heads = 2,
                .head_dim = 8,
                .max_positions = 64,
                .init_std = 0.3};
  c.moh = {.router = router, .routing = routings::kWithinGroups, .num_shared = 2, .top_k = 2};
  auto model = std::make_unique<Llama>(c, Placement{DType::kFloat32, device});
  model->initialise(5);
  return model;
}

double relative_difference(const Tensor& a, const Tensor& b) {
  double difference = 0, most = 1e-30;
  for (std::int64_t i = 0; i < a.numel(); ++i) {
    const double expected = b.data<float>()[i];
    difference = std::max(difference, std::abs(double{a.data<float>()[i]} - expected));
    most = std::max(most, std::abs(expected));
  }
  return difference / most;
}

}  // namespace

TEST_CASE("sim: inside KV groups a model computes what it does on the CPU, forward, backward and decoding") {
  const Device gpu = open_gpu();
  const Tensor tokens = empty({2, 40}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i) tokens.data<std::int64_t>()[i] = i * i * 7 % 19;
  for (const RouterKey router : {routers::kLearned, routers::kQueryNorm}) {
    const auto here = model_within_groups(router, kCpu), there = model_within_groups(router, gpu);
    for (const auto* model : {here.get(), there.get()}) {
      const Device device = model == here.get() ? kCpu : gpu;
      const LlamaOutput output = model->forward(tokens.to(device), {.training = true});
      add(cross_entropy(output.logits, tokens.to(device)), output.routing[1].balance).backward();
    }
    const auto a = there->parameters(), b = here->parameters();
    for (std::size_t i = 0; i < a.size(); ++i) {
      INFO(a[i].name);
      CHECK(relative_difference(a[i].variable.grad().to(kCpu), b[i].variable.grad()) < 1e-3);
    }
    KvCache cache = here->make_cache(2, 64), on_gpu = there->make_cache(2, 64);
    for (const auto& [begin, end] : {std::pair{0, 30}, {30, 31}, {31, 34}}) {
      const Tensor piece = empty({2, end - begin}, DType::kInt64);
      for (std::int64_t t = begin; t < end; ++t) {
        for (std::int64_t text = 0; text < 2; ++text)
          piece.data<std::int64_t>()[text * (end - begin) + t - begin] =
              tokens.data<std::int64_t>()[text * 40 + t];
      }
      CHECK(relative_difference(there->decode(piece.to(gpu), on_gpu).to(kCpu), here->decode(piece, cache)) <
            1e-3);
    }
  }
}

TEST_CASE("sim: straight-through gradients of a whole layer are those of plain loops") {
  check_straight_through({DType::kFloat32, open_gpu()}, 1e-5);
}

TEST_CASE("sim: models with the paper's gates, and with gates of one stage, learn and use them") {
  check_training_with_gates(open_gpu());
}
