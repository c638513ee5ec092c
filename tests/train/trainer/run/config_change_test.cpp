#include "train/trainer/run/config_change.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/language_runs.h"

using namespace moh;

TEST_CASE("trainer: what changes between two configurations is listed by key") {
  RunConfig before = default_language_run(), now = before;
  CHECK(config_changes(before, now).empty());
  now.schedule.peak = 0.5;
  now.train.steps = 77;
  model_of(now).moh.num_shared = 3;
  const std::vector<ConfigChange> changes = config_changes(before, now);
  REQUIRE(changes.size() == 3);
  CHECK(changes[0].key == "train.steps");
  CHECK_FALSE(changes[0].harmless);
  CHECK(changes[1].key == "optim.learning_rate");
  CHECK(changes[1].now == "0.5");
  CHECK(changes[2].key == "model.moh.num_shared");
  CHECK(changes[2].now == "3");
  CHECK_FALSE(changes[2].harmless);
}

TEST_CASE("trainer: a run may go on for longer when that leaves the learning rates as they were") {
  RunConfig before = default_language_run(), now = before;
  now.train.steps = before.train.steps + 1;
  CHECK_THROWS_WITH(review_config_changes(before, now, OnChange::kRefuse),
                    Catch::Contains("train.steps: 1000 -> 1001"));
  now.schedule.decay_steps = before.train.steps;
  CHECK_NOTHROW(review_config_changes(before, now, OnChange::kRefuse));
  now.schedule.decay_steps = 0;
  for (const LrSchedule::Kind kind : {LrSchedule::Kind::kConstant, LrSchedule::Kind::kInverseSqrt}) {
    before.schedule.kind = now.schedule.kind = kind;
    CHECK_NOTHROW(review_config_changes(before, now, OnChange::kRefuse));
  }
}

TEST_CASE("trainer: a schedule may change where the steps so far had the same learning rates") {
  RunConfig before = default_language_run(), now;
  before.schedule = {.kind = LrSchedule::Kind::kLinear, .warmup_steps = 10, .cooldown_steps = 200};
  before.train.steps = 1000;
  now = before;
  const auto review = [&](std::int64_t step) {
    review_config_changes(before, now, OnChange::kRefuse, {}, step);
  };
  now.train.steps = 2000;
  CHECK_NOTHROW(review(801));  // steps 0 to 800 were at the peak, as they would be of 2000 steps
  CHECK_THROWS_WITH(review(802), Catch::Contains("train.steps: 1000 -> 2000"));
  now = before;
  now.schedule.kind = LrSchedule::Kind::kConstant;
  now.schedule.cooldown_steps = 0;
  CHECK_NOTHROW(review(801));
  CHECK_THROWS_WITH(review(900), Catch::Contains("schedule.kind: linear -> constant"));
  now = before;
  now.schedule.cooldown_steps = 100;
  CHECK_NOTHROW(review(500));
  CHECK_THROWS_WITH(review(900), Catch::Contains("schedule.cooldown_steps: 200 -> 100"));
  CHECK_THROWS(review(0));  // of a checkpoint whose step is not known
  before.schedule_epochs.warmup = now.schedule_epochs.warmup = 1;
  CHECK_THROWS(review(500));  // steps of an epoch are not known before the data are open
}

TEST_CASE("trainer: a branch notes what it changes") {
  RunConfig before = default_language_run(), now = before;
  now.seed = 5;
  now.schedule.kind = LrSchedule::Kind::kConstant;
  CHECK_NOTHROW(review_config_changes(before, now, OnChange::kNote));
  CHECK_NOTHROW(review_data_changes({}, {{"data.train", "1 file"}}, OnChange::kNote));
}

TEST_CASE("trainer: paths of data may change where the contents are known, these may not") {
  RunConfig before = default_language_run(), now = before;
  language_run(before).data.train = unnamed_source({"text.txt"});
  language_run(now).data.train = unnamed_source({"/data/text.txt"});
  const DataContents contents = {{"data.train", "1 file, 10 tokens, checksum 12"}};
  CHECK_NOTHROW(review_config_changes(before, now, OnChange::kRefuse, contents));
  CHECK_THROWS_WITH(review_config_changes(before, now, OnChange::kRefuse),
                    Catch::Contains("-> [/data/text.txt]"));
  language_run(now).data.train = unnamed_source({std::filesystem::current_path() / "text.txt"});
  CHECK_NOTHROW(review_config_changes(before, now, OnChange::kRefuse));  // the same file

  CHECK_NOTHROW(review_data_changes(contents, contents, OnChange::kRefuse));
  CHECK_THROWS_AS(review_data_changes({}, contents, OnChange::kRefuse), DataError);
  const DataContents other = {{"data.train", "1 file, 10 tokens, checksum 34"}, {"data.validation", "more"}};
  CHECK_THROWS_WITH(
      review_data_changes(contents, other, OnChange::kRefuse),
      Catch::Contains("\n  data.train: 1 file, 10 tokens, checksum 12 -> 1 file, 10 tokens, checksum 34\n"
                      "  data.validation: none -> more\n"));
  CHECK_THROWS_AS(review_data_changes(other, contents, OnChange::kRefuse), DataError);
  CHECK_NOTHROW(review_data_changes(other, contents, OnChange::kWarn));
}

TEST_CASE("trainer: a resumed run may change what it reports, not what it computes") {
  RunConfig before = default_language_run(), now = before;
  now.log.every = 1;
  now.threads = 2;
  now.cuda_graph = true;
  now.output.dir = "elsewhere";
  now.checkpoint.keep_last = 9;
  CHECK_NOTHROW(review_config_changes(before, now, OnChange::kRefuse));
  now.seed = 5;
  now.train.batch_size = 3;
  CHECK_THROWS_WITH(review_config_changes(before, now, OnChange::kRefuse),
                    Catch::Contains("seed: 0 -> 5") && Catch::Contains("train.batch_size: 16 -> 3") &&
                        Catch::Contains("--allow-changes") && !Catch::Contains("log.every"));
  CHECK_NOTHROW(review_config_changes(before, now, OnChange::kWarn));
}
