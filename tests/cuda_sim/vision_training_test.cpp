// Vision models on the simulated GPU.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>
#include <vector>

#include "autograd/node.h"
#include "models/vision/transnext.h"
#include "models/vision/vit.h"
#include "tests/cuda_sim/same_with_graph.h"
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
  c.moh.router = routers::kLearned;
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
  if (routed) c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  return c;
}

double largest(const Tensor& tensor) {
  double top = 0;
  for (const float value : tensor.span<float>()) top = std::max(top, std::abs(double{value}));
  return top;
}

template <class Model, class Config>
void check_step(const Config& config, std::int64_t height, std::int64_t width, double progress = 0) {
  const std::vector<Tensor> expected = image_step<Model>(config, height, width, 0, DType::kFloat32, progress);
  double of_all = 0;
  for (const Tensor& tensor : expected) of_all = std::max(of_all, largest(tensor));
  in_each_way([&](const std::string& way) {
    INFO(way);
    const std::vector<Tensor> found =
        image_step<Model>(config, height, width, 0, {DType::kFloat32, open_gpu()}, progress);
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
  config = transnext(true);
  config.kept_keys = {75, 50};
  check_step<TransNext>(config, 32, 32);
}

TEST_CASE("sim: loss and gradients of a step of ViT are the CPU's, dense and routed") {
  check_step<Vit>(vit(false, VitPooling::kMean), 16, 16);
  check_step<Vit>(vit(true, VitPooling::kClassToken), 24, 16);  // positions are interpolated
}

TEST_CASE("sim: loss and gradients of a step that learns which heads are shared are the CPU's") {
  VitConfig config = vit(true, VitPooling::kMean);
  config.moh.num_shared = PerLayer(2);  // a single one needs no logits
  config.moh.top_k = PerLayer(0);
  config.moh.top_k_ratio = 0.5;
  config.moh.learn_shared_until = 0.5;
  for (const double progress : {0.0, 0.2, 0.6}) check_step<Vit>(config, 16, 16, progress);
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

namespace {

constexpr std::int64_t kSteps = 10, kFixedAt = 5;

struct LearnedRun {
  std::vector<StepReport> reports;
  std::vector<Tensor> state;
  std::vector<std::vector<std::int64_t>> shared_heads;
};

/// A run that learns for half of its steps which heads are shared, each report read a step late. If `anneal`
/// is not 0, K is annealed until this step.
LearnedRun learned_run(Device device, bool graph, std::int64_t anneal) {
  RunConfig config = small_image_run(ImageArchitecture::kVit);
  MohConfig& moh = images_of(config).model.moh;
  moh.top_k = PerLayer(0);
  moh.top_k_ratio = 0.5;
  moh.learn_shared_until = 0.5;
  moh.top_k_anneal_until = static_cast<double>(anneal) / kSteps;
  config.device = device;
  config.cuda_graph = graph;
  config.train.batch_size = 2;
  config.train.steps = kSteps;
  config.schedule.peak = 0.01;
  TrainingRun run(config, image_family());
  LearnedRun result;
  for (std::int64_t i = 0; i < kSteps; ++i) {
    INFO("step " << i << (graph ? ", captured" : ""));
    const std::int64_t waits = run.begin();
    // Each kind of step is rehearsed twice.
    const bool rehearsed = i - (i >= kFixedAt ? kFixedAt : anneal) >= 2;
    if (rehearsed) CHECK(waits == 0);
    CHECK(run.captured() == (graph && rehearsed));
    if (i > 0) result.reports.push_back(run.finish());
  }
  result.reports.push_back(run.finish());
  result.state = run.state();
  for (const HeadRoutingOptions& layer : run.task().model().routing())
    result.shared_heads.push_back(layer.shared_heads);
  return result;
}

double scalar_of(const StepReport& report, std::string_view name) {
  for (const NamedScalar& scalar : report.statistics.scalars) {
    if (scalar.name == name) return scalar.value;
  }
  FAIL("no " << name);
  return 0;
}

}  // namespace

TEST_CASE("sim: learning which heads are shared: captured steps give the same bits, and the CPU's numbers") {
  const std::int64_t anneal = GENERATE(0, 2);
  INFO("K annealed until step " << anneal);
  const LearnedRun eager = learned_run(open_gpu(), false, anneal),
                   captured = learned_run(open_gpu(), true, anneal), cpu = learned_run(kCpu, false, anneal);
  CHECK(same_bits(captured.state, eager.state));
  CHECK(eager.shared_heads == cpu.shared_heads);
  for (std::size_t i = 0; i < kSteps; ++i) {
    INFO("step " << i);
    CHECK(captured.reports[i].loss == eager.reports[i].loss);
    CHECK(captured.reports[i].statistics.scalars == eager.reports[i].statistics.scalars);
    CHECK(captured.reports[i].statistics.rows == eager.reports[i].statistics.rows);
    // AdamW's first updates are as large where a gradient is nothing but rounding: losses part slowly.
    const double near = i < 2 ? 1e-4 : 0.05;
    CHECK(eager.reports[i].loss == Approx(cpu.reports[i].loss).epsilon(near));
    for (const char* name : {"balance_loss", "activated_heads"})
      CHECK(scalar_of(eager.reports[i], name) == Approx(scalar_of(cpu.reports[i], name)).epsilon(near));
    if (anneal > 0 && i >= kFixedAt) CHECK(scalar_of(eager.reports[i], "top_k") == 2);
    // All heads with a mask above 0 are computed, and a share of the others.
    const double active = scalar_of(cpu.reports[i], "activated_heads");
    if (i >= kFixedAt) CHECK(active == Approx(0.75));
    if (i < kFixedAt) CHECK(active > 0.5);
    CHECK(cpu.reports[i].statistics.rows[0].second[0].size() == (i < kFixedAt ? 4 : 3));
  }
}
