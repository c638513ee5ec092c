#include "train/families/translation/data/pair_batches.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "core/error.h"

using namespace moh;

namespace {

constexpr SentenceMarks kMarks{.end = 2, .decoder_start = 1};

/// Pairs of 0 to 9 source and 0 to 7 target tokens, of which no two are equal.
std::shared_ptr<const TokenPairs> some_pairs(std::int64_t count) {
  PairMemory memory(1000);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<TokenId> source(static_cast<std::size_t>(i * 7 % 10), static_cast<TokenId>(3 + i));
    const std::vector<TokenId> target(static_cast<std::size_t>(i * 5 % 8), static_cast<TokenId>(500 + i));
    memory.append(source, target);
  }
  return std::make_shared<const TokenPairs>(memory.finish());
}

std::vector<std::int64_t> ids_in(const Tensor& tensor) {
  const std::span<const std::int64_t> ids = tensor.span<std::int64_t>();
  return {ids.begin(), ids.end()};
}

PairLengths tokens_of(const TokenPairs& pairs, const std::vector<std::int64_t>& numbers) {
  PairLengths sum;
  for (const std::int64_t pair : numbers) {
    sum.source += pairs.lengths(pair).source + 1;
    sum.target += pairs.lengths(pair).target + 1;
  }
  return sum;
}

}  // namespace

TEST_CASE("translation data: pairs come back as they were appended, and their contents have a checksum") {
  PairMemory memory(300), again(300), moved(300);
  memory.append(std::vector<TokenId>{7, 299}, std::vector<TokenId>{5});
  memory.append({}, std::vector<TokenId>{1, 2, 3});
  const TokenPairs pairs = memory.finish();
  REQUIRE(pairs.size() == 2);
  std::vector<TokenId> source = {9}, target;
  pairs.copy(0, source, target);
  CHECK(source == std::vector<TokenId>{7, 299});
  CHECK(target == std::vector<TokenId>{5});
  pairs.copy(1, source, target);
  CHECK(source.empty());
  CHECK(target == std::vector<TokenId>{1, 2, 3});
  CHECK(pairs.all_lengths().source == 2);
  CHECK(pairs.all_lengths().target == 4);

  again.append(std::vector<TokenId>{7, 299}, std::vector<TokenId>{5});
  again.append({}, std::vector<TokenId>{1, 2, 3});
  CHECK(again.finish().describe_contents() == pairs.describe_contents());
  // As many tokens in the same order, of other sentences.
  moved.append(std::vector<TokenId>{7, 299}, std::vector<TokenId>{5, 1});
  moved.append({}, std::vector<TokenId>{2, 3});
  CHECK(moved.finish().describe_contents() != pairs.describe_contents());
  CHECK_THAT(pairs.describe_contents(),
             Catch::StartsWith("2 pairs, 2 source and 4 target tokens, checksum "));
}

TEST_CASE("translation data: a batch has sentences with their ends, and what the decoder reads and writes") {
  PairMemory memory(100);
  memory.append(std::vector<TokenId>{10, 11}, std::vector<TokenId>{20, 21, 22});
  memory.append(std::vector<TokenId>{12}, {});
  const TokenPairs pairs = memory.finish();
  const PairBatch batch = make_pair_batch(pairs, std::vector<std::int64_t>{1, 0}, kMarks);
  CHECK(ids_in(batch.pairs.source) == std::vector<std::int64_t>{12, 2, 10, 11, 2});
  CHECK(ids_in(batch.pairs.target) == std::vector<std::int64_t>{1, 1, 20, 21, 22});
  CHECK(ids_in(batch.targets) == std::vector<std::int64_t>{2, 20, 21, 22, 2});
  CHECK(batch.targets.shape() == Shape{1, 5});
  CHECK(batch.num_targets == 5);
}

TEST_CASE("translation data: token batches are full, and no longer than they may be") {
  const auto pairs = some_pairs(97);
  for (const std::int64_t tokens : {10, 33, 1000}) {
    CAPTURE(tokens);
    const auto order = [](std::int64_t place) { return 96 - place; };
    const std::vector<std::int64_t> begins = pack_token_batches(*pairs, 97, order, tokens);
    REQUIRE(begins.front() == 0);
    REQUIRE(begins.back() == 97);
    for (std::size_t batch = 0; batch + 1 < begins.size(); ++batch) {
      REQUIRE(begins[batch] < begins[batch + 1]);
      std::vector<std::int64_t> numbers;
      for (std::int64_t place = begins[batch]; place < begins[batch + 1]; ++place)
        numbers.push_back(order(place));
      const PairLengths sum = tokens_of(*pairs, numbers);
      CHECK(std::max(sum.source, sum.target) <= tokens);
      if (begins[batch + 1] == 97) continue;
      numbers.push_back(order(begins[batch + 1]));  // the next one has no room
      const PairLengths more = tokens_of(*pairs, numbers);
      CHECK(std::max(more.source, more.target) > tokens);
    }
  }
  CHECK(pack_token_batches(
            *pairs, 0, [](std::int64_t place) { return place; }, 10) == std::vector<std::int64_t>{0});
}

TEST_CASE("translation data: an epoch has every pair once, and another order than others") {
  const auto pairs = some_pairs(60);
  const TrainingPairs training(pairs, 40, 5), other_seed(pairs, 40, 6);
  const std::int64_t batches = training.batches_per_epoch();
  REQUIRE(batches > 5);
  std::vector<std::vector<std::int64_t>> epochs;
  std::set<std::vector<std::int64_t>> packed[2];
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> all;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      const std::vector<std::int64_t> numbers = training.at(epoch * batches + batch, 1);
      const PairLengths sum = tokens_of(*pairs, numbers);
      CHECK(std::max(sum.source, sum.target) <= 40);
      all.insert(all.end(), numbers.begin(), numbers.end());
      packed[epoch].insert(numbers);
    }
    epochs.push_back(all);
    std::ranges::sort(all);
    REQUIRE(all.size() == 60);
    for (std::int64_t i = 0; i < 60; ++i) CHECK(all[static_cast<std::size_t>(i)] == i);
  }
  CHECK(epochs[0] != epochs[1]);
  CHECK(packed[0] == packed[1]);  // batches are packed once
  CHECK(training.at(3, 1) == TrainingPairs(pairs, 40, 5).at(3, 1));
  CHECK(training.at(3, 1) != other_seed.at(3, 1));
  std::vector<std::int64_t> two = training.at(4, 1);
  const std::vector<std::int64_t> second = training.at(5, 1);
  two.insert(two.end(), second.begin(), second.end());
  CHECK(training.at(4, 2) == two);
  CHECK_THROWS_WITH(TrainingPairs(std::make_shared<const TokenPairs>(), 40, 5),
                    "data.train: sentence pairs: expected at least 1, found none");
}

TEST_CASE("translation data: a bounded evaluation looks at the same pairs whatever the batches") {
  const auto pairs = some_pairs(100);
  const auto all_of = [](const HeldOutPairs& held_out) {
    std::vector<std::int64_t> all;
    for (std::int64_t batch = 0; batch < held_out.size(); ++batch) {
      const std::vector<std::int64_t> numbers = held_out.at(batch);
      all.insert(all.end(), numbers.begin(), numbers.end());
      CHECK(held_out.targets_before(batch + 1) - held_out.targets_before(batch) ==
            tokens_of(held_out.pairs(), numbers).target);
    }
    return all;
  };
  const HeldOutPairs whole(pairs, 30, 0), some(pairs, 30, 90), other(pairs, 11, 90), more(pairs, 30, 100000);
  std::vector<std::int64_t> every(100);
  for (std::int64_t i = 0; i < 100; ++i) every[static_cast<std::size_t>(i)] = i;
  CHECK(all_of(whole) == every);
  CHECK(all_of(more) == every);
  CHECK(whole.num_targets() == whole.all_targets());
  CHECK(all_of(some) == all_of(other));
  CHECK(some.num_pairs() < 100);
  CHECK(some.num_targets() == Approx(90).margin(20));
  CHECK(some.all_targets() == whole.all_targets());
}
