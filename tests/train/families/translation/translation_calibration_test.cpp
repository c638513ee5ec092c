// A translation model is measured on its training pairs before it starts from dense weights.

#include "train/families/translation/translation_calibration.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "autograd/node.h"
#include "models/layers/attention_observer.h"
#include "models/translation/translation_model.h"
#include "tests/train/families/translation/small_translation_run.h"
#include "train/heads/init/router_start.h"
#include "train/heads/init/shared_heads.h"
#include "train/trainer/task/load_model.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kHeads = 4, kWidth = 4, kHidden = 16;  // of small_run
using Row = std::vector<double>;

struct Calibrated {
  explicit Calibrated(Heads heads = Heads::kMoh)
      : run(small_run(write_pairs(folder), heads)),
        data(open_translation_data(run, DataUse::kTraining)),
        model(make_initialised_model(translation_family(), run)) {
    run.init.moh.calibration.batches = 3;
    calibration = translation_family().make_calibration(run, data);
  }

  const TranslationModel& translation() const { return dynamic_cast<const TranslationModel&>(*model); }
  PairBatch batch(std::int64_t index) const {
    return make_pair_batch(*data->train, TrainingPairs(data->train, 64, run.random_seed()).at(index, 1),
                           data->marks);
  }
  Tensor parameter(const std::string& name) const {
    for (const NamedParameter& p : model->parameters())
      if (p.name == name) return p.variable.value();
    FAIL("no parameter " << name);
    return {};
  }

  TemporaryFolder folder;
  RunConfig run;
  std::shared_ptr<const TranslationData> data;
  std::unique_ptr<Model> model;
  std::unique_ptr<Calibration> calibration;
};

/// Inputs of a layer, and for each the logarithms of what its heads 1, 2 and 3 add, less their mean.
struct Regression : AttentionObserver {
  void observe(const AttentionTrace& trace) override {
    inputs.resize(std::max(inputs.size(), static_cast<std::size_t>(trace.layer) + 1));
    logs.resize(inputs.size());
    const auto layer = static_cast<std::size_t>(trace.layer);
    for (std::int64_t t = 0; t < trace.x.dim(1); ++t) {
      const std::span<const float> x = trace.x.select(0).select(t).span<float>();
      inputs[layer].emplace_back(x.begin(), x.end());
      Row row;
      for (std::int64_t h = 1; h < kHeads; ++h) row.push_back(std::log(norm(trace, t, h)));
      const double mean = std::accumulate(row.begin(), row.end(), 0.0) / 3;
      for (double& value : row) value -= mean;
      logs[layer].push_back(row);
    }
  }

  std::vector<std::vector<Row>> inputs, logs;  // by layer

 private:
  static double norm(const AttentionTrace& trace, std::int64_t t, std::int64_t h) {
    const std::span<const float> head = trace.heads.select(0).select(t).select(h).span<float>();
    double squares = 0;
    for (std::int64_t row = 0; row < kHidden; ++row) {
      const float* weights = trace.output.data<float>() + row * kHeads * kWidth + h * kWidth;
      double added = 0;
      for (std::size_t i = 0; i < head.size(); ++i) added += double{head[i]} * double{weights[i]};
      squares += added * added;
    }
    return std::sqrt(squares);
  }
};

/// x of a x = b for a symmetric positive definite matrix, by elimination.
Row solved(std::vector<Row> a, Row b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = n; i-- > 0;) {
    for (std::size_t c = i + 1; c < n; ++c) b[i] -= a[i][c] * b[c];
    b[i] /= a[i][i];
  }
  return b;
}

/// The rows of the fitted map (docs/continue_tuning.md), scaled to logits of standard deviation 0.1.
std::vector<Row> fitted(const std::vector<Row>& inputs, const std::vector<Row>& logs) {
  std::vector<Row> gram(kHidden, Row(kHidden));
  for (const Row& x : inputs)
    for (std::size_t i = 0; i < kHidden; ++i)
      for (std::size_t j = 0; j < kHidden; ++j) gram[i][j] += x[i] * x[j];
  double trace = 0;
  for (std::size_t i = 0; i < kHidden; ++i) trace += gram[i][i];
  for (std::size_t i = 0; i < kHidden; ++i) gram[i][i] += 1e-3 * trace / kHidden;
  std::vector<Row> map;
  double squares = 0;
  for (std::size_t head = 0; head < 3; ++head) {
    Row cross(kHidden);
    for (std::size_t t = 0; t < inputs.size(); ++t)
      for (std::size_t i = 0; i < kHidden; ++i) cross[i] += logs[t][head] * inputs[t][i];
    map.push_back(solved(gram, cross));
    for (const Row& x : inputs)
      squares += std::pow(std::inner_product(x.begin(), x.end(), map[head].begin(), 0.0), 2);
  }
  const double deviation = std::sqrt(squares / static_cast<double>(3 * inputs.size()));
  for (Row& row : map)
    for (double& value : row) value *= 0.1 / deviation;
  return map;
}

}  // namespace

TEST_CASE("translation calibration: the maps of all three kinds of attention are fitted to their inputs") {
  const Calibrated c;
  Regression expected;
  std::int64_t source = 0, target = 0;
  {
    const NoGrad no_grad;
    for (std::int64_t i = 0; i < 3; ++i) {
      const PairBatch batch = c.batch(i);
      source += batch.pairs.source.numel();
      target += batch.num_targets;
      c.translation().forward(batch.pairs, {.observer = &expected, .all_heads = true});
    }
  }
  const std::vector<NamedParameter> routers = router_parameters(*c.model);
  calibrated_start(*c.model, routers, *c.calibration).apply();
  const char* layers[] = {"encoder.layers.0.self_attn", "decoder.layers.0.self_attn",
                          "decoder.layers.0.encoder_attn", "decoder.layers.1.self_attn",
                          "decoder.layers.1.encoder_attn"};
  REQUIRE(expected.inputs.size() == 5);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    CAPTURE(layers[layer]);
    REQUIRE(std::ssize(expected.inputs[layer]) == (layer == 0 ? source : target));
    const std::vector<Row> map = fitted(expected.inputs[layer], expected.logs[layer]);
    const Tensor found = c.parameter(std::string(layers[layer]) + ".wg.weight");
    REQUIRE(found.shape() == Shape{3, kHidden});
    for (std::int64_t i = 0; i < found.numel(); ++i)
      CHECK(double{found.data<float>()[i]} ==
            Approx(map[static_cast<std::size_t>(i / kHidden)][static_cast<std::size_t>(i % kHidden)])
                .epsilon(1e-3)
                .margin(1e-5));
    for (const float weight : c.parameter(std::string(layers[layer]) + ".wg_0.weight").span<float>())
      CHECK(weight == 0);
  }
}

TEST_CASE("translation calibration: the loss is the cross entropy of the first training pairs") {
  const Calibrated c;
  REQUIRE(c.calibration->size() == 3);
  CHECK(c.calibration->input() == "token");
  const NoGrad no_grad;
  for (std::int64_t i = 0; i < 3; ++i) {
    const PairBatch batch = c.batch(i);
    const Tensor logits = c.translation().forward(batch.pairs).logits.value();
    double nll = 0;
    for (std::int64_t t = 0; t < batch.num_targets; ++t) {
      const std::span<const float> row = logits.select(0).select(t).span<float>();
      double sum = 0;
      for (const float z : row) sum += std::exp(double{z});
      nll += std::log(sum) - double{row[static_cast<std::size_t>(batch.targets.data<std::int64_t>()[t])]};
    }
    const Calibration::BatchLoss loss = c.calibration->loss(*c.model, i, {});
    CHECK(loss.targets == batch.num_targets);
    CHECK(double{loss.value.value().item()} == Approx(nll).epsilon(1e-5));
    CHECK(c.calibration->logits(*c.model, i, {}).shape() == logits.shape());
  }
}

TEST_CASE("translation calibration: heads are measured in all three kinds of attention") {
  const Calibrated c(Heads::kDense);
  const char* layers[] = {"encoder.layers.0.self_attn", "decoder.layers.0.self_attn",
                          "decoder.layers.0.encoder_attn", "decoder.layers.1.self_attn",
                          "decoder.layers.1.encoder_attn"};
  const auto scale_head = [&](std::size_t layer, std::int64_t head, float factor) {
    const Tensor output = c.parameter(std::string(layers[layer]) + ".out_proj.weight");
    for (std::int64_t row = 0; row < kHidden; ++row)
      for (std::int64_t i = 0; i < kWidth; ++i)
        output.data<float>()[row * kHeads * kWidth + head * kWidth + i] *= factor;
  };
  // In each layer one head that adds much and one that adds nothing.
  for (std::size_t layer = 0; layer < 5; ++layer) {
    scale_head(layer, static_cast<std::int64_t>(layer) % kHeads, 30);
    scale_head(layer, static_cast<std::int64_t>(layer + 2) % kHeads, 0);
  }
  const HeadScores increases = loss_increases(*c.model, *c.calibration, [](std::int64_t) {});
  REQUIRE(increases.size() == 5);
  for (std::size_t layer = 0; layer < 5; ++layer) {
    CHECK(increases[layer][(layer + 2) % kHeads] == 0);
    CHECK(increases[layer][layer % kHeads] != 0);
  }
  const MohConfig moh = {
      .router = routers::kStatic, .num_shared = 1, .shared_heads = HeadSet{.rule = HeadRule::kOutputNorm}};
  const HeadSet chosen = choose_shared_heads(*c.model, moh, kHeads, *c.calibration);
  REQUIRE(chosen.each.size() == 5);
  for (std::int64_t layer = 0; layer < 5; ++layer)
    CHECK(chosen.each[static_cast<std::size_t>(layer)] == std::vector<std::int64_t>{layer % kHeads});
}
