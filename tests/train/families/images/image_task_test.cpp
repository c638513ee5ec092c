#include "train/families/images/image_task.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/support/family_training.h"
#include "tests/support/image_runs.h"
#include "tests/support/message_of.h"
#include "tests/support/same_bits.h"

using namespace moh;
using namespace moh::test;

namespace {

std::unique_ptr<Task> task_of(const RunConfig& run, DataUse use = DataUse::kTraining) {
  return new_task(image_family(), run, use);
}

struct Training : FamilyTraining {
  explicit Training(const RunConfig& config, std::int64_t first_sample = 0)
      : FamilyTraining(image_family(), config, first_sample) {}
};

std::vector<double> losses_of(const RunConfig& run, std::int64_t steps) {
  Training training(run);
  std::vector<double> losses;
  for (std::int64_t i = 0; i < steps; ++i) losses.push_back(training.next(i).loss);
  return losses;
}

}  // namespace

TEST_CASE("image task: numbers of threads and of workers change no bit, nor does where it resumes") {
  for (const ImageArchitecture architecture : {ImageArchitecture::kVit, ImageArchitecture::kTransNext}) {
    RunConfig run = small_image_run(architecture);
    images_of(run).model.drop_path = 0.2;
    run.train.accumulate = 2;
    const std::vector<double> expected = losses_of(run, 3);
    for (const int threads : {1, 3}) {
      const int before = num_threads();
      set_num_threads(threads);
      images_of(run).data.workers = 4 - threads;
      CHECK(losses_of(run, 3) == expected);
      set_num_threads(before);
    }
    // The second step of another process sees the batches of the second step.
    Training first(run), second(run, 16);
    first.task->seek(16, {});
    CHECK(first.next(1).loss == second.next(1).loss);
  }
}

TEST_CASE("image task: it learns to tell shapes, and says how many images a step had") {
  RunConfig run = small_image_run(ImageArchitecture::kVit);
  images_of(run).data.drawn = 8;  // of which each is seen again and again
  images_of(run).augment.mixing.probability = 0;
  images_of(run).augment.rand_augment = "none";
  images_of(run).augment.crop = {.scale = {1, 1}, .ratio = {1, 1}};
  images_of(run).augment.erasing.probability = 0;
  images_of(run).augment.label_smoothing = 0;
  Training training(run);
  const StepReport first = training.next(0);
  CHECK(first.loss == Approx(std::log(8.0)).margin(0.1));
  CHECK(first.statistics.items == 8);
  CHECK(first.statistics.scalars.at(0).name == "balance_loss");
  CHECK(first.statistics.scalars.at(1).value == 0.75);
  REQUIRE(first.statistics.scalars.at(2).name == "train_top1");
  CHECK(first.statistics.scalars[2].value < 0.5);  // before the first update, among eight classes
  REQUIRE(first.statistics.rows.size() == 1);
  CHECK(first.statistics.rows[0].second.size() == 2);
  StepReport last;
  for (int i = 1; i < 100; ++i) last = training.next(i);
  CHECK(last.loss < 0.5);
  CHECK(last.statistics.scalars.at(2).value > 0.8);
}

TEST_CASE("image task: the loss of an accumulated step is that of one of as many images") {
  RunConfig whole = small_image_run(ImageArchitecture::kVit), parts = whole;
  for (RunConfig* run : {&whole, &parts}) {
    images_of(*run).model.moh = {};
    images_of(*run).data.order.groups = 2;  // of 4 images each, so that the same are mixed
  }
  parts.train.batch_size = 4;
  parts.train.accumulate = 2;
  Training of_whole(whole), of_parts(parts);
  for (int i = 0; i < 2; ++i) {
    const StepReport expected = of_whole.next(i), found = of_parts.next(i);
    CHECK(found.loss == Approx(expected.loss).epsilon(1e-5));
    CHECK(found.statistics.scalars == expected.statistics.scalars);  // the accuracy
  }
}

TEST_CASE("image task: an epoch has the whole steps that its pictures fill") {
  RunConfig run = small_image_run(ImageArchitecture::kVit);
  images_of(run).data.drawn = 67;
  CHECK(task_of(run)->steps_per_epoch() == 8);
  CHECK(task_of(run, DataUse::kSynthetic)->steps_per_epoch() == 8);
  images_of(run).data.drawn = 5;
  CHECK(task_of(run)->steps_per_epoch() == 1);
  images_of(run).data.train = {"not_opened"};
  CHECK(task_of(run, DataUse::kSynthetic)->steps_per_epoch() == 0);
}

TEST_CASE("image task: a moving average of the weights is what is evaluated") {
  RunConfig run = small_image_run(ImageArchitecture::kVit);
  run.ema.decay = 0.75;
  run.ema.warmup = false;
  Training training(run);
  const std::vector<NamedParameter> parameters = training.task->model().parameters();
  std::vector<Tensor> expected;
  for (const NamedParameter& p : parameters) expected.push_back(p.variable.value().clone());
  for (int i = 0; i < 3; ++i) {
    training.next(i);
    for (std::size_t j = 0; j < expected.size(); ++j) {
      float* average = expected[j].data<float>();
      const float* now = parameters[j].variable.value().data<float>();
      for (std::int64_t k = 0; k < expected[j].numel(); ++k) average[k] += 0.25F * (now[k] - average[k]);
    }
  }
  const Tensor& last = parameters.back().variable.value();
  const Tensor trained = last.clone();
  {
    const auto weights = training.step.evaluated_weights();
    REQUIRE(weights != nullptr);
    for (std::size_t j = 0; j < expected.size(); ++j)
      for (std::int64_t k = 0; k < expected[j].numel(); ++k)
        REQUIRE(parameters[j].variable.value().data<float>()[k] ==
                Approx(expected[j].data<float>()[k]).margin(1e-7));
    CHECK_FALSE(same_bits(last, trained));
  }
  CHECK(same_bits(last, trained));
  run.ema.evaluate = false;
  CHECK(Training(run).step.evaluated_weights() == nullptr);
}

TEST_CASE("image task: mixtures of feed-forward networks report and add their load-balance loss") {
  RunConfig run = small_image_run(ImageArchitecture::kTransNext);
  images_of(run).model.transnext.experts = 2;
  Training training(run);
  const StepReport report = training.next(0);
  REQUIRE(report.statistics.scalars.size() == 4);
  CHECK(report.statistics.scalars[1].name == "expert_balance_loss");
  CHECK(report.statistics.scalars[1].value == Approx(1).margin(0.2));  // E sum P f of one of two
}

TEST_CASE("image task: evaluation covers every held-out picture once, in batches of any size") {
  RunConfig run = small_image_run(ImageArchitecture::kVit);
  std::vector<Evaluation> evaluations;
  for (const std::int64_t batch : {20, 7, 1}) {
    run.train.batch_size = batch;
    const auto evaluation =
        task_of(run)->evaluate([](const EvaluationProgress&) { return false; }, one_process());
    REQUIRE(evaluation);
    CHECK(evaluation->coverage == "20 of 20 images");
    evaluations.push_back(*evaluation);
  }
  CHECK(evaluations[1].score == evaluations[0].score);
  CHECK(evaluations[2].score == evaluations[0].score);
  REQUIRE(evaluations[0].metrics.size() == 2);
  CHECK(evaluations[0].metrics[0].first == "top5");
  CHECK(evaluations[0].metrics[1].second == Approx(evaluations[2].metrics[1].second).epsilon(1e-5));
  CHECK_FALSE(task_of(run)->evaluate([](const EvaluationProgress& p) { return p.done >= 3; }, one_process()));
  images_of(run).data.drawn_validation = 0;
  CHECK_FALSE(task_of(run)->evaluate([](const EvaluationProgress&) { return false; }, one_process()));
}

TEST_CASE("image task: synthetic data have the model's classes and sizes") {
  RunConfig run = small_image_run(ImageArchitecture::kTransNext);
  images_of(run).model.classes = 11;
  const std::unique_ptr<Task> task = task_of(run, DataUse::kSynthetic);
  task->seek(0, {});
  CHECK(task->begin_step(2).size() == StepSize{16, 16});
  CHECK(task->sample_sizes() == std::vector<std::pair<std::string_view, std::int64_t>>{{"image_size", 16}});
  CHECK_THAT(message_of<ConfigError>([&] { task_of(run); }),
             Catch::Equals("model.classes: expected 8, the classes of data.train, found 11"));
}
