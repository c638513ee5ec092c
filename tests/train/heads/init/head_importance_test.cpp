#include "train/heads/init/head_importance.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "autograd/node.h"
#include "ops/loss/cross_entropy.h"
#include "tests/train/heads/init/init_fixture.h"
#include "train/heads/init/divergence.h"
#include "train/heads/init/shared_heads.h"

using namespace moh;
using namespace moh::test;

namespace {

/// Multiplies what head `head` of layer `layer` adds to the residual stream.
void scale_head(const Llama& model, int layer, std::int64_t head, float factor) {
  const Tensor o = parameter(model, "model.layers." + std::to_string(layer) + ".self_attn.o_proj.weight");
  const std::int64_t width = o.dim(1);
  for (std::int64_t i = 0; i < o.numel(); ++i) {
    if (i % width / 8 == head) o.data<float>()[i] *= factor;
  }
}

double loss_of(const Llama& model, const LanguageCalibration& batches) {
  const NoGrad no_grad;
  double sum = 0;
  for (std::int64_t i = 0; i < batches.size(); ++i) {
    const TokenBatch batch = batches.batch(i);
    sum += cross_entropy(model.forward(batch.tokens).logits, batch.targets).value().item() /
           static_cast<double>(batch.num_targets * batches.size());
  }
  return sum;
}

}  // namespace

TEST_CASE("init: contribution norms are those of the heads' rows of the output projection") {
  const Tensor heads = empty({2, 3, 2, 4}, DType::kFloat32), output = empty({5, 8}, DType::kFloat32);
  fill_normal(heads, {1, 0}, 0.0, 1.0);
  fill_normal(output, {2, 0}, 0.0, 1.0);
  const Tensor norms = contribution_norms({.heads = heads, .output = output});
  REQUIRE(norms.shape() == Shape{6, 2});
  for (std::int64_t i = 0; i < 12; ++i) {
    double squares = 0;
    for (std::int64_t row = 0; row < 5; ++row) {
      double sum = 0;
      for (std::int64_t j = 0; j < 4; ++j)
        sum += double{output.data<float>()[row * 8 + i % 2 * 4 + j]} * heads.data<float>()[i * 4 + j];
      squares += sum * sum;
    }
    CHECK(norms.data<double>()[i] == Approx(std::sqrt(squares)).epsilon(1e-5));
  }
}

TEST_CASE("init: the loss without a head is that of a model in which the head adds nothing") {
  const RunConfig run = tiny_run();
  const LanguageCalibration batches = tiny_calibration(run);
  const auto model = tiny_model(run);
  int layers_seen = 0;
  const HeadScores increases = loss_increases(*model, batches, [&](std::int64_t) { ++layers_seen; });
  CHECK(layers_seen == 2);
  const double all_on = loss_of(*model, batches);
  for (const auto& [layer, head] : {std::pair{0, 2}, std::pair{1, 5}}) {
    const auto without = tiny_model(run);
    scale_head(*without, layer, head, 0);
    CHECK(increases[static_cast<std::size_t>(layer)][static_cast<std::size_t>(head)] ==
          Approx(loss_of(*without, batches) - all_on).margin(1e-6));
  }
}

TEST_CASE("init: a head whose output is made large has the largest output norm") {
  const RunConfig run = tiny_run();
  const LanguageCalibration batches = tiny_calibration(run);
  const auto model = tiny_model(run);
  scale_head(*model, 0, 4, 10);
  scale_head(*model, 1, 1, 10);
  const HeadScores norms = mean_output_norms(*model, batches);
  CHECK(heads_of_largest_score(norms[0], 1) == std::vector<std::int64_t>{4});
  CHECK(heads_of_largest_score(norms[1], 1) == std::vector<std::int64_t>{1});
}

TEST_CASE("init: the heads of largest score, ascending, ties to the lower number") {
  CHECK(heads_of_largest_score({1, 3, 2, 3}, 2) == std::vector<std::int64_t>{1, 3});
  CHECK(heads_of_largest_score({5, 3, 3, 3}, 2) == std::vector<std::int64_t>{0, 1});
  CHECK(heads_of_largest_score({1, 2}, 0).empty());
  CHECK(heads_of_largest_score({1, 3, 2, 9, 8, 7}, 2, 2) == std::vector<std::int64_t>{1, 3});
}

TEST_CASE("init: the divergence of two distributions") {
  const Tensor p = tensor_of<float>({2, 3}, {0, 1, 2, 5, 5, 5}),
               q = tensor_of<float>({2, 3}, {2, 1, 0, 7, 7, 7});
  CHECK(sum_of_divergences(p, p) == Approx(0).margin(1e-12));
  const double z = 1 + std::exp(1.0) + std::exp(2.0);
  CHECK(sum_of_divergences(p, q) == Approx((std::exp(2.0) - 1) * 2 / z));  // the second rows are alike
}
