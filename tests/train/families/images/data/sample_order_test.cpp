#include "train/families/images/data/sample_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "core/error.h"

using namespace moh;

namespace {

std::vector<std::int64_t> epoch_of(const SampleOrder& order, std::int64_t epoch) {
  std::vector<std::int64_t> pictures;
  for (std::int64_t i = 0; i < order.samples_per_epoch(); ++i)
    pictures.push_back(order.picture_of(epoch * order.samples_per_epoch() + i));
  return pictures;
}

}  // namespace

TEST_CASE("sample order: an epoch has each picture once, but for those that fill no step") {
  const SampleOrder order(103, 10, 5);
  CHECK(order.samples_per_epoch() == 100);
  const auto first = epoch_of(order, 0), second = epoch_of(order, 1);
  CHECK(std::set(first.begin(), first.end()).size() == 100);
  CHECK(std::set(second.begin(), second.end()).size() == 100);
  CHECK(first != second);
  CHECK(std::ranges::all_of(first, [](std::int64_t i) { return i >= 0 && i < 103; }));
  CHECK(epoch_of(SampleOrder(103, 10, 6), 0) != first);
  CHECK(order.epoch_of(250) == 2);
  CHECK(order.index_of(250) == 50);
}

TEST_CASE("sample order: with fewer pictures than a step, steps reach into the next epoch") {
  const SampleOrder order(7, 10, 5);
  CHECK(order.samples_per_epoch() == 7);
  const auto all = epoch_of(order, 3);
  CHECK(std::set(all.begin(), all.end()).size() == 7);
}

TEST_CASE("sample order: repeats and groups are those of DeiT's sampler on as many ranks") {
  constexpr std::int64_t kPictures = 600, kRanks = 4, kRepeats = 3, kStep = 32, kLocal = kStep / kRanks;
  const SampleOrder order(kPictures, kStep, 9, {.repeats = kRepeats, .groups = kRanks});
  CHECK(order.group_samples() == kLocal);
  // 600 rounded down to 256, dealt to 4 ranks, each taking whole batches.
  CHECK(order.samples_per_epoch() == 512);
  // The permutation itself: without repeats and groups, a sample is its place.
  const SampleOrder plain(kPictures, 1, 9);
  for (const std::int64_t epoch : {0, 2}) {
    std::vector<std::int64_t> repeated;
    for (std::int64_t i = 0; i < kPictures; ++i)
      repeated.insert(repeated.end(), kRepeats, plain.picture_of(epoch * kPictures + i));
    std::vector<std::vector<std::int64_t>> ranks(kRanks);
    for (std::size_t i = 0; i < repeated.size(); ++i) ranks[i % kRanks].push_back(repeated[i]);
    std::vector<std::int64_t> expected;
    for (std::int64_t step = 0; step < 512 / kStep; ++step) {
      for (const auto& rank : ranks)
        expected.insert(expected.end(), rank.begin() + step * kLocal, rank.begin() + (step + 1) * kLocal);
    }
    CHECK(epoch_of(order, epoch) == expected);
  }
  // The three views of a picture are in one step, and in different groups.
  const auto samples = epoch_of(order, 0);
  const auto first = std::ranges::find(samples, samples[0]);
  CHECK(std::ranges::count(samples, *first) == kRepeats);
  CHECK(std::count(samples.begin(), samples.begin() + kLocal, samples[0]) == 1);
}

TEST_CASE("sample order: an epoch of ImageNet has the recipe's length") {
  const SampleOrder order(1281167, 1024, 0, {.repeats = 3, .groups = 8});
  CHECK(order.samples_per_epoch() == 1281024);
  const std::int64_t last = order.samples_per_epoch() * 300 - 1;
  CHECK(order.picture_of(last) < 1281167);
}

TEST_CASE("sample order: steps that groups do not divide, and too few pictures, are refused") {
  CHECK_THROWS_AS(SampleOrder(100, 10, 1, {.groups = 3}), ValueError);
  CHECK_THROWS_AS(SampleOrder(100, 10, 1, {.repeats = 0}), ValueError);
  CHECK_THROWS_AS(SampleOrder(5, 10, 1, {.repeats = 3}), ValueError);
  CHECK_THROWS_AS(SampleOrder(0, 10, 1), ValueError);
}
