// Vision models on the simulated GPU.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "models/vision/transnext.h"
#include "models/vision/vit.h"
#include "tests/cuda_sim/training_run.h"
#include "tests/models/vision/image_step.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"
#include "tests/support/image_runs.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Heads of 24 elements, as the published ones, in a stage of aggregated attention and one of full attention.
TransNextConfig transnext(bool routed) {
  TransNextConfig c{.classes = 5,
                    .dims = {48, 72},
                    .heads = {2, 3},
                    .depths = {1, 1},
                    .mlp_ratios = {2, 2},
                    .pool_ratios = {4, 1},
                    .pretrain_size = 32};
  if (!routed) return c;
  c.moh.router = RouterKind::kLearned;
  c.moh.num_shared = PerLayer(1);
  c.moh.top_k = PerLayer(1);
  return c;
}

VitConfig vit(bool routed, VitPooling pooling) {
  VitConfig c{.image_size = 16,
              .patch_size = 4,
              .classes = 5,
              .layers = 2,
              .hidden = 32,
              .heads = 4,
              .pooling = pooling};
  if (routed) c.moh = {.router = RouterKind::kLearned, .num_shared = 1, .top_k = 2};
  return c;
}

double largest(const Tensor& tensor) {
  double top = 0;
  for (const float value : tensor.span<float>()) top = std::max(top, std::abs(double{value}));
  return top;
}

template <class Model, class Config>
void check_step(const Config& config, std::int64_t height, std::int64_t width) {
  const std::vector<Tensor> expected = image_step<Model>(config, height, width);
  double of_all = 0;
  for (const Tensor& tensor : expected) of_all = std::max(of_all, largest(tensor));
  in_each_way([&](const std::string& way) {
    INFO(way);
    const std::vector<Tensor> found =
        image_step<Model>(config, height, width, 0, {DType::kFloat32, open_gpu()});
    for (std::size_t i = 0; i < expected.size(); ++i) {
      // Some gradients are zero but for rounding: a bias before a norm.
      const double magnitude = std::max(largest(expected[i]), 1e-4 * of_all);
      check_close(found[i], expected[i].to(DType::kFloat64), 2e-4 * magnitude, "tensor " + std::to_string(i));
    }
  });
}

}  // namespace

TEST_CASE("sim: loss and gradients of a step of TransNeXt are the CPU's, dense, routed and with experts") {
  for (const bool routed : {false, true}) check_step<TransNext>(transnext(routed), 32, 48);
  TransNextConfig config = transnext(true);
  config.experts = 2;
  config.drop_path = 0.3;
  check_step<TransNext>(config, 32, 32);
}

TEST_CASE("sim: loss and gradients of a step of ViT are the CPU's, dense and routed") {
  check_step<Vit>(vit(false, VitPooling::kMean), 16, 16);
  check_step<Vit>(vit(true, VitPooling::kClassToken), 24, 16);  // positions are interpolated
}

TEST_CASE("sim: a captured step of a vision model gives the same bits as one that is not") {
  for (const auto& [architecture, precision] : {std::pair(ImageArchitecture::kVit, Precision::kFloat32),
                                                {ImageArchitecture::kTransNext, Precision::kBFloat16}}) {
    RunConfig config = small_image_run(architecture);
    config.device = open_gpu();
    config.precision = precision;
    config.train.batch_size = 2;
    config.schedule.peak = 0.01;
    const auto evaluate = [](const Model& model) {
      const NoGrad no_grad;
      const Tensor images = full({1, 24, 24, 3}, 0.5, model.dtype()).to(model.device());
      const Variable logits = dynamic_cast<const ImageModel&>(model).forward(Variable(images)).logits;
      CHECK(logits.value().all_finite());
    };
    check_same_with_graph(config, evaluate, image_family());
  }
}
