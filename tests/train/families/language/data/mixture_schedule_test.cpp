#include "train/families/language/data/mixture_schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <ctime>
#include <numeric>

#include "core/error.h"

using namespace moh;

namespace {

/// The seven sources of the paper's language models, in percent.
const std::vector<double> paper_mixture = {4.24, 3.50, 4.37, 3.19, 10.94, 61.28, 12.48};

/// The largest deviation of a source's share from its weight, over rows [begin, begin + rows).
double worst_share(const MixtureSchedule& schedule, const std::vector<double>& weights, std::int64_t begin,
                   std::int64_t rows) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double worst = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const auto found = static_cast<double>(schedule.count(i, begin + rows) - schedule.count(i, begin));
    worst = std::max(worst, std::abs(found / static_cast<double>(rows) - weights[i] / total));
  }
  return worst;
}

}  // namespace

TEST_CASE("data: the counts of a mixture are those of its rows, one by one") {
  for (const std::vector<double>& weights : {paper_mixture, {1.0}, {1, 1}, {0.001, 5, 0.3}}) {
    const MixtureSchedule schedule(weights, 3);
    std::vector<std::int64_t> counts(weights.size());
    for (std::int64_t row = 0; row < 3000; ++row) {
      for (std::size_t i = 0; i < weights.size(); ++i) REQUIRE(schedule.count(i, row) == counts[i]);
      const MixtureSchedule::Row found = schedule.at(row);
      REQUIRE(found.index == counts.at(found.source));
      ++counts[found.source];
    }
  }
}

TEST_CASE("data: a mixture has its ratio within 0.1% in any 10000 rows, wherever they begin") {
  const std::vector<std::vector<double>> mixtures = {
      paper_mixture, {1, 1}, {1, 2, 3}, {0.5, 99.5}, {1, 1, 1, 1, 1, 1, 1, 1}};
  for (const std::vector<double>& weights : mixtures) {
    for (const std::uint64_t seed : {0, 1, 42}) {
      const MixtureSchedule schedule(weights, seed);
      for (std::int64_t begin = 0; begin < 200'000; begin += 997)
        REQUIRE(worst_share(schedule, weights, begin, 10'000) < 0.001);
      // Past 2^32 rows, where the sequence repeats, and far behind.
      for (const std::int64_t begin : {(std::int64_t{1} << 32) - 5000, std::int64_t{1} << 50})
        REQUIRE(worst_share(schedule, weights, begin, 10'000) < 0.001);
      CHECK(worst_share(schedule, weights, 0, std::int64_t{1} << 32) < 1e-9);
    }
  }
}

TEST_CASE("data: a mixture is a function of the seed") {
  const MixtureSchedule one(paper_mixture, 1), again(paper_mixture, 1), two(paper_mixture, 2);
  std::int64_t different = 0;
  for (std::int64_t row = 0; row < 1000; ++row) {
    CHECK(one.at(row).source == again.at(row).source);
    different += one.at(row).source != two.at(row).source;
  }
  CHECK(different > 100);
}

TEST_CASE("data: any row of a mixture is found in less than a millisecond") {
  const MixtureSchedule schedule(paper_mixture, 1);
  const std::clock_t began = std::clock();  // processor time: other programs do not count
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 1000; ++i) sum += schedule.at((std::int64_t{1} << 60) / (i + 1)).index;
  const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  CHECK(sum > 0);
  CHECK(seconds < 1.0);  // of all 1000
}

TEST_CASE("data: a mixture refuses weights that are none") {
  for (const std::vector<double>& weights :
       {std::vector<double>{}, {0.0, 1.0}, {-1.0, 2.0}, {1.0, std::nan("")}, {HUGE_VAL, 1.0}, {1.0, 1e-12}})
    CHECK_THROWS_AS(MixtureSchedule(weights, 0), ValueError);
}
