// The load-balance loss over a step's whole batch: whatever its micro-batches, it is that of one micro-batch
// with all samples, which has the formula of the released code.

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/image_runs.h"
#include "tests/support/language_runs.h"
#include "tests/support/same_bits.h"
#include "tests/train/trainer/run/in_parts.h"
#include "train/families/diffusion/diffusion_family.h"
#include "train/families/diffusion/diffusion_run.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/load_model.h"

using namespace moh;
using namespace moh::test;

namespace {

RunConfig language() {
  RunConfig run = default_language_run();
  LlamaConfig& model = model_of(run);
  model.layers = 2;
  model.hidden = 32;
  model.intermediate = 48;
  model.heads = 4;
  model.kv_heads = 2;
  model.max_positions = 16;
  model.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  language_run(run).data.sequence_length = 16;
  return run;
}

RunConfig pictures(ImageArchitecture architecture) {
  RunConfig run = small_image_run(architecture);
  images_of(run).augment.mixing.probability = 0;  // of a micro-batch
  images_of(run).model.drop_path = 0;             // likewise
  return run;
}

RunConfig diffusion() {
  RunConfig run = default_run(diffusion_family().defaults());
  auto& own = dynamic_cast<DiffusionRun&>(*run.family);
  own.model = {
      .image_size = 8, .patch_size = 2, .channels = 3, .classes = 8, .layers = 2, .hidden = 32, .heads = 4};
  own.model.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2};
  own.data.drawn = 64;
  return run;
}

const Family& family_of(const RunConfig& run) {
  for (const Family* family :
       {static_cast<const Family*>(&language_family()), static_cast<const Family*>(&image_family())}) {
    if (family->defaults().task() == run.task) return *family;
  }
  return diffusion_family();
}

/// The results of a step.
struct Step {
  std::vector<Tensor> gradients;
  double loss = 0, balance = 0;
};

/// The step of `accumulate` micro-batches. The weight of the balance loss is large, so that its gradient is
/// no rounding beside the task's.
Step step_of(RunConfig run, std::int64_t accumulate, BalanceScope scope,
             BalanceLoss form = BalanceLoss::kCode) {
  run = in_parts(std::move(run), accumulate);
  run.optim.adamw.clip_grad_norm = 0;
  MohConfig& moh = *run.family->moh();
  moh.balance_weight = 1;
  moh.balance_scope = scope;
  moh.balance_loss = form;
  const Family& family = family_of(run);
  const std::unique_ptr<Task> task =
      family.make_task(run, family.open_data(run, DataUse::kSynthetic), make_initialised_model(family, run));
  AdamW optimizer(task->model(), run.optim.adamw);
  TrainStep train_step(*task, optimizer, run);
  task->seek(0, {});
  train_step.begin(0, 1e-3);
  const StepReport report = train_step.finish();
  Step step{{}, report.loss, 0};
  for (const NamedParameter& parameter : task->model().parameters()) {
    const Tensor& gradient = parameter.variable.grad();
    if (gradient.defined()) step.gradients.push_back(gradient.clone());
  }
  for (const NamedScalar& scalar : report.statistics.scalars) {
    if (scalar.name == "balance_loss") step.balance = scalar.value;
  }
  return step;
}

/// The largest difference of two gradients over the parameters, relative to the parameter's largest element.
double difference(const Step& a, const Step& b) {
  REQUIRE(a.gradients.size() == b.gradients.size());
  double most = 0;
  for (std::size_t i = 0; i < a.gradients.size(); ++i) {
    const auto x = a.gradients[i].span<float>(), y = b.gradients[i].span<float>();
    double largest = 0, apart = 0;
    for (std::size_t j = 0; j < x.size(); ++j) {
      largest = std::max<double>(largest, std::abs(x[j]));
      apart = std::max<double>(apart, std::abs(x[j] - y[j]));
    }
    if (largest > 1e-6) most = std::max(most, apart / largest);
  }
  return most;
}

}  // namespace

TEST_CASE("train: a balance loss over the whole step does not depend on how its batch is divided") {
  const auto [name, run] = GENERATE(
      values<std::pair<std::string, RunConfig>>({{"language", language()},
                                                 {"vit", pictures(ImageArchitecture::kVit)},
                                                 {"transnext", pictures(ImageArchitecture::kTransNext)},
                                                 {"diffusion", diffusion()}}));
  const BalanceLoss form = GENERATE(BalanceLoss::kCode, BalanceLoss::kCv);
  INFO(name << (form == BalanceLoss::kCv ? ", cv" : ", code"));
  const Step whole = step_of(run, 1, BalanceScope::kMicroBatch, form);
  CHECK(whole.balance > 0);
  for (const std::int64_t accumulate : {1, 2, 8}) {
    INFO(accumulate << " micro-batches");
    const Step step = step_of(run, accumulate, BalanceScope::kGlobal, form);
    CHECK(step.loss == Approx(whole.loss).epsilon(1e-6));
    CHECK(step.balance == Approx(whole.balance).epsilon(1e-5));
    CHECK(difference(step, whole) < 1e-4);
  }
  // Or equal gradients would show nothing.
  const Step apart = step_of(run, 8, BalanceScope::kMicroBatch, form);
  CHECK(apart.balance > (1 + 2e-4) * whole.balance);
  CHECK(difference(apart, whole) > 1e-2);
}

TEST_CASE("train: loads that are counted first are those of the pass that is recorded, bit by bit") {
  // With dropout, and with layers that are computed again, or in full for the estimator's gradients.
  RunConfig run = language();
  model_of(run).dropout = 0.2;
  const Step expected = step_of(run, 4, BalanceScope::kGlobal);
  model_of(run).recompute = RecomputeLevel::kLayer;
  const Step again = step_of(run, 4, BalanceScope::kGlobal);
  CHECK(same_bits(again.gradients, expected.gradients));
  CHECK(again.balance == expected.balance);

  model_of(run).moh.router = routers::kQueryNorm;
  model_of(run).moh.straight_through = StraightThrough::kAll;
  const Step all = step_of(run, 4, BalanceScope::kGlobal);
  model_of(run).recompute = RecomputeLevel::kNone;
  CHECK(same_bits(step_of(run, 4, BalanceScope::kGlobal).gradients, all.gradients));
}

TEST_CASE("train: loads of the step are the mean of those that loss() reports") {
  RunConfig run = language();
  model_of(run).dropout = 0.2;
  run.train.batch_size = 2;
  run.train.accumulate = 3;
  MohConfig& moh = model_of(run).moh;
  moh.balance_scope = BalanceScope::kGlobal;
  const Family& family = language_family();
  const std::unique_ptr<Task> task =
      family.make_task(run, family.open_data(run, DataUse::kSynthetic), make_initialised_model(family, run));
  task->seek(0, {});
  TrainingStep step = task->begin_step(3);
  step.set_targets(96);
  StepLoads loads;
  loads.begin(3);
  for (std::int64_t i = 0; i < 3; ++i) {
    Generator generator(1, static_cast<std::uint64_t>(i));
    loads.add(step.load(i).head_loads(generator));
  }
  step.set_balance_loads(loads.of_layers());
  std::vector<double> numbers;
  NumberLayout layout;
  for (std::int64_t i = 0; i < 3; ++i) {
    Generator generator(1, static_cast<std::uint64_t>(i));
    const MicroBatchLoss loss = step.load(i).loss(generator);
    layout = NumberLayout(loss.numbers);
    for (const Tensor& tensor : values_of(loss.numbers)) {
      for (std::int64_t j = 0; j < tensor.numel(); ++j)
        numbers.push_back(tensor.reshape({tensor.numel()}).select(j).item());
    }
  }
  const StepStatistics statistics = layout.statistics(96, 3, numbers);
  REQUIRE(statistics.rows.at(0).first == "head_load");
  const auto& reported = statistics.rows[0].second;
  REQUIRE(reported.size() == loads.of_layers().size());
  for (std::size_t layer = 0; layer < reported.size(); ++layer) {
    const auto counted = loads.of_layers()[layer].span<float>();
    REQUIRE(reported[layer].size() == counted.size());
    for (std::size_t e = 0; e < counted.size(); ++e) CHECK(counted[e] == Approx(reported[layer][e]));
  }
}
