#include "train/trainer/task/data/spread_subset.h"

#include <catch2/catch.hpp>

namespace moh {

TEST_CASE("data: a bounded evaluation is spread over the whole of the data, each thing once") {
  for (const std::int64_t total : {1, 7, 100, 101}) {
    for (const std::int64_t most : {1, 2, 7, 33, 100}) {
      const SpreadSubset subset(total, most);
      INFO(most << " of " << total);
      CHECK(subset.size() == std::min(total, most));
      CHECK(subset.at(0) == 0);
      for (std::int64_t i = 1; i < subset.size(); ++i) {
        const std::int64_t gap = subset.at(i) - subset.at(i - 1);
        CHECK((gap == total / subset.size() || gap == total / subset.size() + 1));
      }
      CHECK(subset.at(subset.size() - 1) < total);
      CHECK(total - subset.at(subset.size() - 1) <= total / subset.size() + 1);
    }
  }
}

TEST_CASE("data: an evaluation without a bound, or with a larger one, is of everything") {
  for (const std::int64_t most : {0, 5, 6}) {
    const SpreadSubset subset(5, most);
    CHECK(subset.is_whole());
    for (std::int64_t i = 0; i < 5; ++i) CHECK(subset.at(i) == i);
  }
  // No product of counts overflows.
  const SpreadSubset huge(std::int64_t{1} << 62, (std::int64_t{1} << 61) + 1);
  CHECK(huge.at(std::int64_t{1} << 61) < huge.total());
  CHECK(huge.at(std::int64_t{1} << 61) > huge.total() - 4);
}

}  // namespace moh
