#include "train/config/suggest.h"

#include <catch2/catch.hpp>

namespace moh::config {
namespace {

TEST_CASE("config suggestions: edit distance counts edits and swaps") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "ab") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("tarin", "train") == 1);
  CHECK(edit_distance("steps", "setps") == 1);
  CHECK(edit_distance("same", "same") == 0);
}

TEST_CASE("config suggestions: the nearest key, if one is near") {
  const std::vector<std::string> keys = {
      "train",     "train.steps", "train.epochs", "optim.learning_rate", "schedule.warmup_steps",
      "log.every", "eval.every"};
  CHECK(nearest_key("optim.lerning_rate", keys) == "optim.learning_rate");
  CHECK(nearest_key("learning_rate", keys) == "optim.learning_rate");
  CHECK(nearest_key("train.learning_rate", keys) == "optim.learning_rate");
  CHECK(nearest_key("train.warmup_steps", keys) == "schedule.warmup_steps");
  CHECK(nearest_key("evl.every", keys) == "eval.every");
  CHECK(nearest_key("tarin", keys) == "train");
  CHECK(nearest_key("optim.lr", keys) == "optim.learning_rate");  // what others call it
  CHECK(nearest_key("Max_Epochs", keys) == "train.epochs");
  CHECK(nearest_key("trainer.max_epochs", {"train"}).empty());  // where there is such a key
  CHECK(nearest_key("x", keys).empty());
  CHECK(nearest_key("", keys).empty());
  CHECK(nearest_key(std::string(100000, 'x'), keys).empty());
}

TEST_CASE("config suggestions: the nearest name") {
  const std::vector<std::string> names = {"cosine", "constant"};
  CHECK(nearest_name("cosin", names) == "cosine");
  CHECK(nearest_name("linear", names).empty());
}

}  // namespace
}  // namespace moh::config
