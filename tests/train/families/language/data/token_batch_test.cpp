#include "train/families/language/data/token_batch.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.h"
#include "tests/train/families/language/data/byte_tokenizer.h"
#include "train/tokenizers/tokenizer.h"
#include "train/trainer/task/data/batch_workers.h"

using namespace moh;
using moh::test::byte_tokenizer;

namespace {

/// Ids 1, 2, ... (mod 255) + 1: each tells its place.
TokenSourcePtr counting(std::int64_t count) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i % 255) + 1;
  return tokens_in_memory(ids, 256);
}

std::vector<std::int64_t> values(const Tensor& tensor) {
  const auto span = tensor.span<std::int64_t>();
  return {span.begin(), span.end()};
}

bool equal(const TokenBatch& a, const TokenBatch& b) {
  return values(a.tokens) == values(b.tokens) && values(a.targets) == values(b.targets) &&
         a.num_targets == b.num_targets && a.target_bytes == b.target_bytes;
}

using Workers = BatchWorkers<TokenBatch>;

/// Batches of four rows, each made as one sample.
Workers::Steps steps_of(const TrainingBatches& batches) {
  return {.begin = [&](std::int64_t) { return batches.begin(4); },
          .samples = 1,
          .make = [&](TokenBatch& batch, std::int64_t i, std::int64_t) { batches.fill(batch, i * 4); },
          .finish = [](TokenBatch&, std::int64_t) {}};
}

}  // namespace

TEST_CASE("data: a training batch holds each token beside the one that follows it") {
  const TrainingBatches batches({{.tokens = counting(200)}}, byte_tokenizer, {.sequence_length = 8}, 3);
  const TokenBatch batch = batches.at(5, 4);
  REQUIRE(batch.tokens.shape() == Shape{4, 8});
  REQUIRE(batch.targets.shape() == Shape{4, 8});
  CHECK(batch.num_targets == 32);
  CHECK(batch.target_bytes == 32);
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int64_t start = batches.sampler().window_start(5 + row);
    for (std::int64_t t = 0; t < 8; ++t) {
      CHECK(batch.tokens.data<std::int64_t>()[row * 8 + t] == start + t + 1);
      CHECK(batch.targets.data<std::int64_t>()[row * 8 + t] == start + t + 2);
    }
  }
}

TEST_CASE("data: a sample is the same in whatever batch it comes") {
  const TrainingBatches batches({{.tokens = counting(500)}}, byte_tokenizer, {.sequence_length = 8}, 3);
  const TokenBatch big = batches.at(0, 16);
  for (std::int64_t i = 0; i < 16; ++i) {
    CHECK(values(big.tokens.select(i).clone()) == values(batches.at(i, 1).tokens));
  }
}

TEST_CASE("data: the end of a document is a target without bytes") {
  const std::vector<TokenId> ids = {'a', 'b', 0, 'c'};
  const TrainingBatches batches({{.tokens = tokens_in_memory(ids, 256)}}, byte_tokenizer,
                                {.sequence_length = 3}, 0);
  const TokenBatch batch = batches.at(0, 1);
  CHECK(values(batch.targets) == std::vector<std::int64_t>{'b', 0, 'c'});
  CHECK(batch.num_targets == 3);
  CHECK(batch.target_bytes == 2);
}

TEST_CASE("data: with a mask of documents a batch says where each begins, and predicts none across") {
  const std::vector<TokenId> ids = {'a', 'b', 0, 'c', 0, 0, 'd', 'e', 'f'};
  const TrainingBatches batches({{.tokens = tokens_in_memory(ids, 256)}}, byte_tokenizer,
                                {.sequence_length = 8, .document_mask = true}, 0);
  const TokenBatch batch = batches.at(0, 1);
  REQUIRE(batch.document_starts.shape() == Shape{1, 8});
  const auto starts = batch.document_starts.span<std::int32_t>();
  CHECK(std::vector<std::int32_t>(starts.begin(), starts.end()) ==
        std::vector<std::int32_t>{0, 0, 0, 3, 3, 5, 6, 6});
  constexpr std::int64_t kNone = kIgnoredTarget;
  CHECK(values(batch.targets) == std::vector<std::int64_t>{'b', 0, kNone, 0, kNone, kNone, 'e', 'f'});
  CHECK(batch.num_targets == 5);
  CHECK(batch.target_bytes == 3);  // the end of a document has none

  const EvaluationBatches held_out(tokens_in_memory(ids, 256), byte_tokenizer,
                                   {.sequence_length = 5, .document_mask = true}, 2);
  const TokenBatch both = held_out.at(0);
  CHECK(both.num_targets == 5);
  CHECK(values(both.targets) ==
        std::vector<std::int64_t>{'b', 0, kNone, 0, kNone, kNone, 'e', 'f', kNone, kNone});
}

TEST_CASE("data: a mixture reads each row from its source, in the source's own order and epochs") {
  const TokenSourcePtr few = tokens_in_memory(std::vector<TokenId>(33, 'a'), 256), many = counting(2000);
  const TrainingBatches batches({{"few", few, 3}, {"many", many, 1}}, byte_tokenizer, {.sequence_length = 8},
                                7);
  const TrainingBatches alone({{.tokens = few}}, byte_tokenizer, {.sequence_length = 8}, 7);
  std::vector<std::int64_t> rows(2);
  for (std::int64_t sample = 0; sample < 400; ++sample) {
    const TokenBatch batch = batches.at(sample, 1);
    const std::size_t source = values(batch.tokens) == std::vector<std::int64_t>(8, 'a') ? 0 : 1;
    CHECK(batches.schedule().at(sample).source == source);
    CHECK(batches.schedule().at(sample).index == rows[source]);
    if (source == 0) CHECK(equal(batch, alone.at(rows[0], 1)));
    ++rows[source];
  }
  CHECK(std::abs(rows[0] - 300) <= 3);
  CHECK(rows[0] / batches.sampler(0).windows_per_epoch() == 100);  // 3 windows each
  // Rows are the same whatever the batches and where they begin.
  CHECK(values(batches.at(100, 64).tokens.select(37).clone()) == values(batches.at(137, 1).tokens));
}

TEST_CASE("data: sources of one size have different orders") {
  const TrainingBatches batches({{"one", counting(900), 1}, {"two", counting(900), 1}}, byte_tokenizer,
                                {.sequence_length = 8}, 7);
  std::int64_t equal_windows = 0;
  for (std::int64_t i = 0; i < 100; ++i)
    equal_windows += batches.sampler(0).window_start(i) == batches.sampler(1).window_start(i);
  CHECK(equal_windows < 10);
}

TEST_CASE("data: a source that is too short is named") {
  CHECK_THROWS_WITH(TrainingBatches({{"long", counting(100), 1}, {"short", counting(8), 1}}, byte_tokenizer,
                                    {.sequence_length = 8}, 0),
                    Catch::Contains("source short") && Catch::Contains("at least 9 tokens"));
}

TEST_CASE("data: a bounded evaluation has the same windows for any batch size, spread over the stream") {
  const auto targets_of = [](std::int64_t batch_size, std::int64_t max_tokens) {
    const EvaluationBatches batches(counting(250), byte_tokenizer, {.sequence_length = 4}, batch_size,
                                    max_tokens);
    CHECK(batches.all_predicted() == 249);
    std::vector<std::int64_t> targets;
    for (std::int64_t b = 0; b < batches.size(); ++b) {
      CHECK(batches.predicted_before(b) == std::ssize(targets));
      for (const std::int64_t target : values(batches.at(b).targets)) {
        if (target != kIgnoredTarget) targets.push_back(target);
      }
    }
    CHECK(batches.num_predicted() == std::ssize(targets));
    return targets;
  };
  const std::vector<std::int64_t> expected = targets_of(1, 37);  // ten windows of 63
  CHECK(expected.size() == 40);
  CHECK(expected[4] - expected[0] == 6 * 4);
  CHECK(expected.back() > 220);
  for (const std::int64_t batch_size : {2, 3, 7, 64}) CHECK(targets_of(batch_size, 37) == expected);
  CHECK(targets_of(3, 40) == expected);
  CHECK(targets_of(3, 249) == targets_of(3, 0));
}

TEST_CASE("data: evaluation has every token but the first as a target exactly once") {
  for (std::int64_t num_tokens : {2, 3, 8, 9, 10, 17, 40, 41, 42}) {
    const EvaluationBatches batches(counting(num_tokens), byte_tokenizer, {.sequence_length = 8}, 3);
    std::vector<std::int64_t> targets;
    std::int64_t counted = 0;
    for (std::int64_t b = 0; b < batches.size(); ++b) {
      const TokenBatch batch = batches.at(b);
      CHECK(batch.tokens.dim(0) <= 3);
      CHECK(batch.tokens.dim(1) == 8);
      counted += batch.num_targets;
      const auto tokens = values(batch.tokens), follow = values(batch.targets);
      for (std::size_t i = 0; i < follow.size(); ++i) {
        if (follow[i] == kIgnoredTarget) {
          CHECK(tokens[i] == 0);
        } else {
          CHECK(follow[i] == tokens[i] + 1);
          targets.push_back(follow[i]);
        }
      }
    }
    std::vector<std::int64_t> expected(static_cast<std::size_t>(num_tokens) - 1);
    std::iota(expected.begin(), expected.end(), 2);
    INFO("tokens " << num_tokens);
    CHECK(targets == expected);  // in order, too
    CHECK(counted == num_tokens - 1);
  }
}

TEST_CASE("data: evaluation refuses a text without a target, and sizes below one") {
  CHECK_THROWS_AS(EvaluationBatches(counting(1), byte_tokenizer, {.sequence_length = 8}, 3), DataError);
  CHECK_THROWS_WITH(EvaluationBatches(counting(0), byte_tokenizer, {.sequence_length = 8}, 3),
                    Catch::Contains("held-out text: expected at least 2 tokens, found 0"));
  CHECK_THROWS_AS(EvaluationBatches(counting(9), byte_tokenizer, {.sequence_length = 0}, 3), ValueError);
  CHECK_THROWS_AS(EvaluationBatches(counting(9), byte_tokenizer, {.sequence_length = 8}, 0), ValueError);
}

TEST_CASE("data: batches do not depend on how far ahead they are made") {
  const TrainingBatches batches({{.tokens = counting(3000)}}, byte_tokenizer, {.sequence_length = 8}, 3);
  Workers direct(steps_of(batches), 0, 1, 0), one(steps_of(batches), 0, 1, 1),
      eight(steps_of(batches), 0, 8, 1);
  for (int i = 0; i < 200; ++i) {
    const TokenBatch expected = direct.next();
    CHECK(equal(expected, one.next()));
    CHECK(equal(expected, eight.next()));
  }
  CHECK(one.position() == 200);
  CHECK(eight.position() == 200);
}

TEST_CASE("data: batches that begin where others stopped go on as those would have") {
  const TrainingBatches batches({{.tokens = counting(3000)}}, byte_tokenizer, {.sequence_length = 8}, 3);
  Workers straight(steps_of(batches), 0, 4, 1);
  std::int64_t position = 0;
  {
    Workers stopped(steps_of(batches), 0, 4, 1);  // has batches ahead when it ends
    for (int i = 0; i < 150; ++i) CHECK(equal(straight.next(), stopped.next()));
    position = stopped.position();
  }
  Workers resumed(steps_of(batches), position, 2, 1);
  for (int i = 0; i < 150; ++i) CHECK(equal(straight.next(), resumed.next()));
}
