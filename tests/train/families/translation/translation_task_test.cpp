#include "train/families/translation/translation_task.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/support/family_training.h"
#include "tests/support/same_bits.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thread_processes.h"
#include "tests/train/families/translation/small_translation_run.h"
#include "train/families/translation/translation_evaluation.h"
#include "train/families/translation/translation_family.h"

using namespace moh;
using namespace moh::test;

namespace {

std::unique_ptr<Task> task_of(const RunConfig& run, DataUse use = DataUse::kTraining) {
  return new_task(translation_family(), run, use);
}

struct Training : FamilyTraining {
  explicit Training(const RunConfig& config, std::int64_t first_sample = 0)
      : FamilyTraining(translation_family(), config, first_sample) {}
};

double scalar(const StepReport& report, std::string_view name) {
  for (const NamedScalar& s : report.statistics.scalars)
    if (s.name == name) return s.value;
  FAIL(name);
  return 0;
}

/// The smoothed loss and the -log p of each target of pairs one by one, without packing, in double.
struct Losses {
  double loss = 0, nll = 0;
  std::int64_t targets = 0;
};
Losses losses_one_by_one(const TranslationModel& model, const TranslationData& data,
                         const std::vector<std::int64_t>& numbers, double smoothing) {
  const NoGrad no_grad;
  Losses sums;
  for (const std::int64_t number : numbers) {
    const PairBatch batch = make_pair_batch(*data.train, std::span(&number, 1), data.marks);
    const Tensor logits = model.forward(batch.pairs).logits.value();
    const std::int64_t width = logits.dim(-1);
    for (std::int64_t t = 0; t < batch.num_targets; ++t) {
      const float* row = logits.data<float>() + t * width;
      double sum = 0;
      for (std::int64_t j = 0; j < width; ++j) sum += std::exp(static_cast<double>(row[j]));
      for (std::int64_t j = 0; j < width; ++j) {
        const bool is_target = j == batch.targets.data<std::int64_t>()[t];
        const double nll = std::log(sum) - static_cast<double>(row[j]);
        sums.loss += (is_target ? 1 - smoothing : smoothing / static_cast<double>(width - 1)) * nll;
        if (is_target) sums.nll += nll;
      }
    }
    sums.targets += batch.num_targets;
  }
  return sums;
}

}  // namespace

TEST_CASE("translation task: the loss of a step is the mean over its targets, of sentences that stay apart") {
  const TemporaryFolder folder;
  for (const Heads heads : {Heads::kDense, Heads::kMoh, Heads::kMoa}) {
    const RunConfig run = small_run(write_pairs(folder), heads);
    const auto data = open_translation_data(run, DataUse::kTraining);
    const auto model = make_initialised_model(translation_family(), run);
    const TrainingPairs pairs(data->train, 64, run.random_seed());
    const Losses expected =
        losses_one_by_one(dynamic_cast<const TranslationModel&>(*model), *data, pairs.at(0, 2), 0.1);
    Training training(run);
    const StepReport report = training.next(0);
    CHECK(report.loss == Approx(expected.loss / static_cast<double>(expected.targets)).epsilon(1e-5));
    CHECK(scalar(report, "nll") ==
          Approx(expected.nll / static_cast<double>(expected.targets)).epsilon(1e-5));
    CHECK(report.statistics.items == expected.targets);
    if (heads != Heads::kDense) CHECK(scalar(report, "balance_loss") > 0);
  }
}

TEST_CASE("translation task: a training that is continued makes the same steps") {
  const TemporaryFolder folder;
  RunConfig run = small_run(write_pairs(folder));
  dynamic_cast<TranslationRun&>(*run.family).model.dropout = 0.2;
  const auto task = task_of(run), other = task_of(run);
  task->seek(0, {});
  other->seek(4, {});  // two steps of two samples
  const auto third = [](Task& of, int skipped) {
    for (int i = 0; i < skipped; ++i) of.begin_step(2);
    TrainingStep step = of.begin_step(2);
    step.set_targets(step.size().targets);
    std::vector<double> losses;
    for (std::int64_t i = 0; i < 2; ++i) {
      Generator generator(1, 2);
      losses.push_back(step.load(i).loss(generator).total.value().item());
    }
    return losses;
  };
  CHECK(third(*task, 2) == third(*other, 0));
}

TEST_CASE("translation task: processes share the micro-batches of a step") {
  const TemporaryFolder folder;
  const RunConfig run = small_run(write_pairs(folder));
  const auto targets_of = [&](const StepPart& part, std::int64_t count) {
    const auto task = task_of(run);
    task->seek(0, part);
    std::vector<std::int64_t> targets;
    for (int step = 0; step < 3; ++step) targets.push_back(task->begin_step(count).size().targets);
    return targets;
  };
  const auto both = targets_of({}, 2), first = targets_of({.rank = 0, .processes = 2}, 1),
             second = targets_of({.rank = 1, .processes = 2}, 1);
  for (std::size_t step = 0; step < both.size(); ++step) CHECK(both[step] == first[step] + second[step]);
}

TEST_CASE("translation task: an evaluation is the same with several processes, and its perplexity e^nll") {
  const TemporaryFolder folder;
  const RunConfig run = small_run(write_pairs(folder));
  const auto evaluate = [&](Communicator& processes) {
    return *task_of(run)->evaluate([](const EvaluationProgress&) { return false; }, processes);
  };
  const Evaluation alone = evaluate(one_process());
  REQUIRE(alone.metrics.size() == 2);
  CHECK(alone.metrics[0].first == "nll");
  CHECK(alone.metrics[1].first == "perplexity");
  CHECK(alone.metrics[1].second == Approx(std::exp(alone.metrics[0].second)));
  CHECK(alone.metrics[0].second == Approx(std::log(256)).margin(2));
  CHECK(alone.evaluated == alone.held_out);
  CHECK_THAT(alone.coverage, Catch::EndsWith(" sentence pairs"));
  require_success(2, [&](Communicator& processes) {
    const Evaluation shared = evaluate(processes);
    if (processes.rank() != 0) return;
    CHECK(shared.score == alone.score);
    CHECK(shared.metrics == alone.metrics);
  });
  CHECK_FALSE(task_of(run)->evaluate([](const EvaluationProgress&) { return true; }, one_process()));
}

TEST_CASE("translation task: an epoch is so many steps, and a loss falls") {
  const TemporaryFolder folder;
  const RunConfig run = small_run(write_pairs(folder));
  Training training(run);
  const auto data = open_translation_data(run, DataUse::kTraining);
  const TrainingPairs pairs(data->train, 64, run.random_seed());
  CHECK(training.task->steps_per_epoch() == pairs.batches_per_epoch() / 2);
  CHECK(task_of(run, DataUse::kSynthetic)->steps_per_epoch() == 0);
  const double first = training.next(0).loss;
  double last = 0;
  for (std::int64_t step = 1; step < 60; ++step) last = training.next(step).loss;
  CHECK(last < first - 1);
}
