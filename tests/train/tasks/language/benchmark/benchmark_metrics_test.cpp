#include "train/tasks/language/benchmark/benchmark_metrics.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace moh;

namespace {

BenchmarkTask choice_task(std::vector<std::string> metrics) {
  BenchmarkTask task;
  task.metrics = std::move(metrics);
  task.score = task.metrics.front();
  return task;
}

/// Values of a question of three choices whose first one is right.
std::vector<double> values(const std::vector<double>& log_likelihoods,
                           const std::vector<bool>& correct = {true, false, false}) {
  const BenchmarkItem item{.correct = correct, .characters = {10, 2, 4}, .bytes = {10, 6, 12}};
  return item_values(choice_task({"acc", "acc_norm", "acc_bytes", "mass"}), item,
                     {.log_likelihoods = log_likelihoods});
}

BenchmarkTask generation_task() {
  BenchmarkTask task;
  task.kind = BenchmarkKind::kGeneration;
  task.metrics = {"exact_match"};
  task.extractions = {{"first", "#### (\\-?[0-9\\.\\,]+)", false},
                      {"last", "(-?[$0-9.,]{2,})|(-?[0-9]+)", true}};
  task.match = {{",", "\\$", "(?s).*#### ", "\\.$"}, true, false};
  return task;
}

std::vector<double> exact(const BenchmarkTask& task, const std::string& text,
                          std::vector<std::string> references) {
  return item_values(task, {.references = std::move(references)}, {.text = text});
}

using Values = std::vector<double>;

/// Scores over subjects of questions whose first value is given.
std::vector<MetricValue> scores(const BenchmarkTask& task, const std::vector<Values>& of_subjects,
                                const std::vector<std::int64_t>& words = {}) {
  std::vector<std::vector<BenchmarkItem>> items;
  std::vector<std::vector<ItemResult>> results;
  for (const Values& subject : of_subjects) {
    items.emplace_back(subject.size());
    results.emplace_back(subject.size());
    for (std::size_t i = 0; i < subject.size(); ++i) {
      results.back()[i].values.assign(reported_metrics(task).size(), subject[i]);
      if (!words.empty()) {
        items.back()[i].words = words[i];
        items.back()[i].text_bytes = 5 * words[i];
      }
    }
  }
  return aggregate(task, items, results);
}

}  // namespace

TEST_CASE("benchmark: accuracy by log-likelihood, by character and by byte") {
  // -6, -2, -5: per character -0.6, -1, -1.25; per byte -0.6, -1/3, -5/12.
  CHECK(values({-6, -2, -5}) == Values{0, 1, 0, values({-6, -2, -5})[3]});
  CHECK(values({-1, -2, -5})[0] == 1);
  CHECK(values({-2, -2, -2})[0] == 1);  // of equal ones the first, as numpy's argmax
  CHECK(values({-2, -2, -2}, {false, false, true})[0] == 0);
  CHECK(values({-5, -2, -3}, {false, true, true})[0] == 1);  // several are right
}

TEST_CASE("benchmark: the mass of the right choices") {
  const double all = std::exp(-1.0) + std::exp(-2.0) + std::exp(-3.0);
  CHECK(values({-1, -2, -3}, {true, false, true})[3] == Approx((std::exp(-1.0) + std::exp(-3.0)) / all));
  CHECK(values({-1001, -1002, -1003}, {true, false, true})[3] ==
        Approx((std::exp(-1.0) + std::exp(-3.0)) / all));
}

TEST_CASE("benchmark: answers are found in what the model wrote") {
  const BenchmarkTask task = generation_task();
  const std::string right = "Some reasoning.\n#### 1,234";
  CHECK(exact(task, "So 5 + 1229 = 1234.\n#### 1234", {right}) == Values{1, 1});
  CHECK(exact(task, "It is $1,234.", {right}) == Values{0, 1});
  CHECK(exact(task, "#### 1234 and not 7", {right}) == Values{1, 0});
  CHECK(exact(task, "no number", {right}) == Values{0, 0});
  BenchmarkTask plain;
  plain.kind = BenchmarkKind::kGeneration;
  plain.metrics = {"exact_match"};
  plain.match = {{"\\b(?:The |the |An |A |a |an )"}, true, true};
  CHECK(exact(plain, "  The Beatles! ", {"Abba", "the beatles"}) == Values{1});
  CHECK(exact(plain, "Beatle", {"Abba", "the beatles"}) == Values{0});
}

TEST_CASE("benchmark: a mean has the standard error of lm-evaluation-harness, pooled over subjects") {
  const BenchmarkTask task = choice_task({"acc"});
  const MetricValue one = scores(task, {{1, 0, 0, 1, 1}}).front();
  CHECK(one.value == Approx(0.6));
  // mean_stderr([1, 0, 0, 1, 1]) of lm_eval 0.4.13
  CHECK(*one.error == Approx(0.24494897427831783));
  const MetricValue two = scores(task, {{1, 0, 0, 1, 1}, {1, 1, 0}}).front();
  CHECK(two.value == Approx(5.0 / 8));
  // pooled_sample_stderr([mean_stderr([1,0,0,1,1]), mean_stderr([1,1,0])], [5, 3])
  CHECK(*two.error == Approx(0.19720265943665388));
  CHECK_FALSE(scores(task, {{1}}).front().error.has_value());
}

TEST_CASE("benchmark: perplexities are of all words, and of all questions") {
  BenchmarkTask task;
  task.kind = BenchmarkKind::kPerplexity;
  task.metrics = {"word_perplexity", "byte_perplexity", "bits_per_byte"};
  const auto found = scores(task, {{-20, -30}}, {10, 5});
  CHECK(found[0].value == Approx(std::exp(50.0 / 15)));
  CHECK(found[1].value == Approx(std::exp(50.0 / 75)));
  CHECK(found[2].value == Approx(50.0 / 75 / std::log(2.0)));
  // Residuals of the ratio -10/3 are 40/3 and -40/3.
  const double error = std::sqrt(2 * std::pow(40.0 / 3, 2) * 2) / 15;
  CHECK(*found[0].error == Approx(std::exp(50.0 / 15) * error));
  CHECK(*found[2].error == Approx(error / 5 / std::log(2.0)));
  CHECK_FALSE(scores(task, {{-20}}, {10})[0].error.has_value());

  task.kind = BenchmarkKind::kContinuation;
  task.metrics = {"acc", "perplexity"};
  CHECK(scores(task, {{-1, -3}})[1].value == Approx(std::exp(2.0)));
  const ItemResult result{.log_likelihoods = {-3}, .is_greedy = {true}};
  CHECK(item_values(task, {}, result) == Values{1, -3});
}
