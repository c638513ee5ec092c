#include "train/weights/checkpoint/train_state.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace moh;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("trainer: the state reads back as it was written") {
  TrainState state{.step = 12,
                   .samples = 96,
                   .items = 3072,
                   .optimizer_steps = 11,
                   .skipped_in_row = 1,
                   .elapsed_seconds = 1.0 / 3,
                   .best_score = 2.5,
                   .recent_losses = {2.5, 1.0 / 3},
                   .recent_grad_norms = {0.1},
                   .selections = {"0f", ""},
                   .evaluation_due = true,
                   .seed = 7,
                   .identity = {{"tokenizer", "byte"}, {"tokenizer_hash", "00ff"}},
                   .data = {{"data.train", "2 files"}}};
  const TrainState again = train_state_from_json(to_json(state), "checkpoint");
  CHECK(to_json(again) == to_json(state));
  CHECK(again.elapsed_seconds == state.elapsed_seconds);
  CHECK(again.recent_losses == state.recent_losses);
  CHECK(again.recent_grad_norms == state.recent_grad_norms);
  CHECK(again.selections == state.selections);
  CHECK(again.identity == state.identity);
  CHECK(again.data == state.data);
  CHECK(again.evaluation_due);
  state.best_score.reset();
  CHECK_FALSE(train_state_from_json(to_json(state), "checkpoint").best_score);
}

TEST_CASE("trainer: a state that is not what to_json writes is refused, naming the field") {
  const std::string good = to_json(TrainState{.step = 12});
  CHECK_THROWS_WITH(train_state_from_json(replaced(good, "\"step\": 12", "\"step\": -1"), "checkpoint x"),
                    "checkpoint x: trainer.json: step: expected a count, found -1");
  CHECK_THROWS_WITH(
      train_state_from_json(replaced(good, "\"version\": 1", "\"version\": 9"), "checkpoint x"),
      "checkpoint x: trainer.json: version: expected 1, found 9; use the version of moh that wrote it");
  CHECK_THROWS_AS(train_state_from_json(replaced(good, "\"items\"", "\"itms\""), "c"), CheckpointError);
  CHECK_THROWS_AS(
      train_state_from_json(replaced(good, "\"elapsed_seconds\": 0.0", "\"elapsed_seconds\": \"0\""), "c"),
      CheckpointError);
  CHECK_THROWS_AS(
      train_state_from_json(replaced(good, "\"evaluation_due\": false", "\"evaluation_due\": 0"), "c"),
      CheckpointError);
  CHECK_THROWS_AS(train_state_from_json("{", "c"), CheckpointError);
  CHECK_THROWS_AS(train_state_from_json("[]", "c"), CheckpointError);
}

TEST_CASE("trainer: a hostile state is refused, however deep or large") {
  const std::string text = to_json({.step = 12, .samples = 96});
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const auto read = [](const std::string& state) { return train_state_from_json(state, "checkpoint"); };
  CHECK_THROWS_AS(read(replaced(text, "\"samples\": 96", "\"samples\": " + deep)), CheckpointError);
  CHECK_THROWS_AS(read(deep), CheckpointError);
  CHECK_THROWS_AS(read(replaced(text, "\"samples\": 96", "\"samples\": 9223372036854775807")),
                  CheckpointError);
}
