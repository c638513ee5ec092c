#include "models/layers/attention_observer.h"

#include <catch2/catch.hpp>
#include <vector>

#include "autograd/node.h"
#include "models/llm/llama.h"
#include "tests/models/llm/tiny_llama.h"

using namespace moh;

namespace {

class Keeper : public AttentionObserver {
 public:
  void observe(const AttentionTrace& trace) override {
    layers.push_back(trace.layer);
    shapes.push_back(trace.heads.shape());
    routed.push_back(trace.choice != nullptr);
    // The layer's contribution to the residual stream if its output projection were the identity.
    largest_unselected = 0;
    if (trace.choice == nullptr) return;
    const Tensor& selected = trace.choice->routing.selected;
    const std::int64_t width = trace.heads.dim(3);
    for (std::int64_t pair = 0; pair < selected.numel(); ++pair) {
      if (selected.data<std::uint8_t>()[pair] != 0) continue;
      for (std::int64_t i = 0; i < width; ++i) {
        largest_unselected =
            std::max(largest_unselected, std::abs(trace.heads.data<float>()[pair * width + i]));
      }
    }
  }

  std::vector<std::int64_t> layers;
  std::vector<Shape> shapes;
  std::vector<bool> routed;
  float largest_unselected = 0;
};

}  // namespace

TEST_CASE("models: an observer sees each attention layer once, in order, and changes no bit") {
  for (const RouterKey router : {routers::kNone, routers::kLearned}) {
    LlamaConfig config = test::tiny_llama(router);
    config.layers = 3;
    Llama model(config, DType::kFloat32);
    model.initialise(3);
    const Tensor tokens = full({2, 7}, 5, DType::kInt64);
    const NoGrad no_grad;
    Keeper keeper;
    const Tensor watched = model.forward(tokens, {.observer = &keeper}).logits.value();
    const Tensor alone = model.forward(tokens).logits.value();
    CHECK(std::equal(watched.data<float>(), watched.data<float>() + watched.numel(), alone.data<float>()));
    CHECK(keeper.layers == std::vector<std::int64_t>{0, 1, 2});
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(keeper.shapes[i] == Shape{2, 7, 4, 4});
      CHECK(keeper.routed[i] == (router != routers::kNone));
    }
    CHECK(keeper.largest_unselected == 0.0F);
  }
}
