#include "train/families/images/image_evaluation.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <stdexcept>

#include "ops/loss/cross_entropy.h"
#include "tests/support/thread_processes.h"

using namespace moh;

TEST_CASE("image evaluation: the rank of a class counts the logits above it") {
  const float nan = std::nanf("");
  const std::vector<float> logits = {3, 1, 2, 0};
  CHECK(rank_of(logits, 0) == 0);
  CHECK(rank_of(logits, 1) == 2);
  CHECK(rank_of(logits, 3) == 3);
  // Equal logits go by number: a model that says nothing is right about one class, not about all.
  CHECK(rank_of(std::vector<float>{1, 1, 1}, 0) == 0);
  CHECK(rank_of(std::vector<float>{1, 1, 1}, 2) == 2);
  // One that is not a number is never right.
  CHECK(rank_of(std::vector<float>{nan, nan, nan}, 0) == 2);
  CHECK(rank_of(std::vector<float>{1, nan, 0}, 0) == 1);
}

TEST_CASE("image evaluation: counts by class leave out what is ignored") {
  ClassCounts counts(6);
  const Tensor logits = zeros({4, 6}, DType::kFloat32);
  float* rows = logits.data<float>();
  rows[0 * 6 + 2] = 1;                                                   // label 2: right
  for (int j = 0; j < 6; ++j) rows[6 + j] = static_cast<float>(6 - j);   // label 4: fifth
  for (int j = 0; j < 6; ++j) rows[12 + j] = static_cast<float>(6 - j);  // label 5: sixth
  counts.add(logits, tensor_of<std::int64_t>({4}, {2, 4, 5, kIgnoredTarget}));
  CHECK(counts.total() == 3);
  CHECK(counts.top1() == Approx(1.0 / 3));
  CHECK(counts.top5() == Approx(2.0 / 3));
  CHECK(counts.confused(2, 2) == 1);
  CHECK(counts.confused(4, 0) == 1);
  CHECK(counts.confused(5, 0) == 1);
  CHECK(counts.of_class(4) == 1);
  CHECK(counts.of_class(0) == 0);
}

TEST_CASE("image evaluation: counts take memory for what occurs, however many classes there are") {
  ClassCounts counts(std::int64_t{1} << 26);
  CHECK(counts.of_class((std::int64_t{1} << 26) - 1) == 0);
  CHECK(counts.most_confused(5) == -1);
  CHECK(counts.confusion().empty());
}

TEST_CASE("image evaluation: the counts of several processes are those of one") {
  constexpr std::int64_t kClasses = 8, kRows = 12;
  const Tensor logits = zeros({kRows, kClasses}, DType::kFloat32), labels = empty({kRows}, DType::kInt64);
  for (std::int64_t i = 0; i < kRows; ++i) {
    labels.data<std::int64_t>()[i] = i % 5;
    for (std::int64_t j = 0; j < kClasses; ++j)
      logits.data<float>()[i * kClasses + j] = static_cast<float>((i * j) % 7);
  }
  ClassCounts expected(kClasses);
  expected.add(logits, labels);
  for (const int processes : {2, 3}) {
    moh::test::require_success(processes, [&](Communicator& group) {
      ClassCounts counts(kClasses);
      // The first process has most of the rows, the last none.
      const std::int64_t begin = group.rank() == 0 ? 0 : 9, end = group.rank() == 0   ? 9
                                                                  : group.rank() == 1 ? kRows
                                                                                      : 9;
      if (begin < end) counts.add(logits.slice(begin, end), labels.slice(begin, end));
      counts.add_of_all(group);
      if (counts.confusion() != expected.confusion() || counts.total() != expected.total() ||
          counts.top1() != expected.top1() || counts.top5() != expected.top5() ||
          counts.among_five(3) != expected.among_five(3))
        throw std::runtime_error("other counts");
    });
  }
}
