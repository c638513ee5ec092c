#include "train/weights/checkpoint/checkpoint_store.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Names = std::vector<std::string>;

CheckpointContents with_metric(std::int64_t step, double metric) {
  CheckpointContents contents = sample_checkpoint(step);
  contents.metric = metric;
  return contents;
}

void flip_last_bit(const fs::path& path) {
  std::string bytes = read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(path, bytes);
}

}  // namespace

TEST_CASE("checkpoint: store: keeps the newest ones and the best") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), {.keep_last = 2, .keep_best = true});
  for (const auto& [step, metric] : {std::pair(1, 3.0), {2, 1.0}, {3, 2.0}, {4, 2.5}, {5, 4.0}}) {
    test.store.save(with_metric(step, metric));
  }
  CHECK(names_in(test.store.folder()) == Names{"step_00000002", "step_00000004", "step_00000005"});
  test.store.save(with_metric(6, 0.5));  // a new best: the old one may go
  CHECK(names_in(test.store.folder()) == Names{"step_00000005", "step_00000006"});
  test.store.save(sample_checkpoint(7));  // without a metric it is never the best
  test.store.save(sample_checkpoint(8));
  CHECK(names_in(test.store.folder()) == Names{"step_00000006", "step_00000007", "step_00000008"});
  CHECK(test.warnings.empty());
}

TEST_CASE("checkpoint: store: the best goes like any other when it need not stay") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), {.keep_last = 1, .keep_best = false});
  for (int step : {1, 2, 3}) test.store.save(with_metric(step, step));
  CHECK(names_in(test.store.folder()) == Names{"step_00000003"});
}

TEST_CASE("checkpoint: store: milestones stay, beside the newest and the best") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), {.keep_last = 1, .keep_best = true, .keep = {2, 4, 99}});
  for (int step : {1, 2, 3, 4, 5, 6}) test.store.save(with_metric(step, step));
  CHECK(names_in(test.store.folder()) ==
        Names{"step_00000001", "step_00000002", "step_00000004", "step_00000006"});
  StoreUnderTest without(run.path(), {.keep_last = 1, .keep_best = false});
  without.store.save(sample_checkpoint(7));  // the policy of today counts
  CHECK(names_in(test.store.folder()) == Names{"step_00000007"});
}

TEST_CASE("checkpoint: store: what was just saved stays even when newer ones are there") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), {.keep_last = 1, .keep_best = false});
  test.store.save(sample_checkpoint(10));
  test.store.save(sample_checkpoint(4));
  CHECK(names_in(test.store.folder()) == Names{"step_00000004", "step_00000010"});
}

TEST_CASE("checkpoint: store: refuses to keep none") {
  const TemporaryFolder run;
  CHECK(message_of<ValueError>([&] { StoreUnderTest(run.path(), {.keep_last = 0}); }) ==
        "checkpoints: keep_last: expected 1 or more, found 0");
}

TEST_CASE("checkpoint: store: a damaged checkpoint neither counts nor goes") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), {.keep_last = 2, .keep_best = true});
  for (int step : {1, 2, 3}) test.store.save(sample_checkpoint(step));
  fs::remove(test.store.folder() / "step_00000003/config.yaml");
  test.store.save(sample_checkpoint(4));
  CHECK(names_in(test.store.folder()) == Names{"step_00000002", "step_00000003", "step_00000004"});
  fs::remove(test.store.folder() / "step_00000004/manifest.json");
  std::vector<CheckpointInfo> complete = test.store.list();
  std::erase_if(complete, [](const CheckpointInfo& info) { return !info.complete(); });
  CHECK(complete.back().step == 2);
}

TEST_CASE("checkpoint: store: nothing to resume from is no error") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  CHECK(test.store.list().empty());
  CHECK_FALSE(test.store.open_newest(false).has_value());
}

TEST_CASE("checkpoint: store: a checkpoint of the same step is replaced") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  test.store.save(sample_checkpoint(5));
  const CheckpointContents other = with_metric(5, 1.0);
  test.store.save(other);
  CHECK(names_in(test.store.folder()) == Names{"step_00000005"});
  CHECK(same_checkpoint(*test.store.open_newest(false), other));
}

TEST_CASE("checkpoint: store: a damaged newest is refused, or set aside when an older one will do") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  for (int step : {1, 2, 3}) test.store.save(sample_checkpoint(step));
  flip_last_bit(test.store.folder() / "step_00000003/model.safetensors");
  fs::remove(test.store.folder() / "step_00000002/trainer.json");

  CHECK_THAT(message_of<CheckpointError>([&] { test.store.open_newest(false); }),
             Contains("step_00000003/model.safetensors: layers.0.wo: expected checksum "));
  CHECK_THROWS_AS(read_checkpoint(resolve_checkpoint(run.path())), CheckpointError);
  CHECK(test.warnings.empty());

  CHECK(same_checkpoint(*test.store.open_newest(true), sample_checkpoint(1)));
  REQUIRE(test.warnings.size() == 2);
  CHECK_THAT(test.warnings[0],
             Contains("step_00000003") && Contains("; falling back to the previous checkpoint"));
  CHECK_THAT(test.warnings[1], Contains("step_00000002/trainer.json"));
  // The run goes on from step 1: the damaged ones no longer stand in the way.
  test.store.save(sample_checkpoint(2));
  CHECK(test.store.open_newest(false)->step() == 2);
  const Names names = names_in(test.store.folder());
  CHECK(names.size() == 4);
  CHECK(names[0].starts_with("damaged-step_00000002-"));
  CHECK(names[1].starts_with("damaged-step_00000003-"));
}

TEST_CASE("checkpoint: store: what a killed process left behind goes at the next start") {
  const TemporaryFolder run;
  { StoreUnderTest(run.path()).store.save(sample_checkpoint(1)); }
  const fs::path folder = run / "checkpoints";
  write_file(folder / ".tmp-step_00000002-0123456789abcdef/model.safetensors", "half");
  fs::copy(folder / "step_00000001", folder / ".old-step_00000001-0123456789abcdef");  // was being replaced
  fs::copy(folder / "step_00000001",
           folder / ".old-step_00000000-0123456789abcdef");  // and this one had not been yet
  StoreUnderTest test(run.path());
  CHECK(names_in(folder) == Names{"step_00000000", "step_00000001"});
  CHECK(test.warnings.empty());
  CHECK(same_checkpoint(*test.store.open_newest(false), sample_checkpoint(1)));
}

}  // namespace moh
