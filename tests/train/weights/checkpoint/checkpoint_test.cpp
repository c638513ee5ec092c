#include "train/weights/checkpoint/checkpoint.h"

#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("checkpoint: what was saved is what is loaded, bit for bit") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  CheckpointContents contents = sample_checkpoint(1200);
  contents.metric = 1.4697265625;
  const fs::path folder = test.store.save(contents);
  CHECK(folder == run / "checkpoints/step_00001200");
  CHECK(names_in(folder) == Names{"config.yaml", "manifest.json", "model.safetensors",
                                  "optimizer-00000-of-00001.safetensors", "trainer.json"});
  CHECK(names_in(run / "checkpoints") == Names{"step_00001200"});
  CHECK(same_checkpoint(read_checkpoint(folder), contents));
  CHECK(test.warnings.empty());
}

TEST_CASE("checkpoint: the same contents give the same bytes") {
  const TemporaryFolder run;
  const fs::path a = StoreUnderTest(run / "a").store.save(sample_checkpoint(1));
  CheckpointContents contents = sample_checkpoint(1);
  std::swap(contents.model[0], contents.model[1]);
  const fs::path b = StoreUnderTest(run / "b").store.save(contents);
  for (const std::string& name : names_in(a)) {
    INFO(name);
    CHECK(read_file(a / name) == read_file(b / name));
  }
}

TEST_CASE("checkpoint: nothing but the model is read when only the model is asked for") {
  const TemporaryFolder run;
  const fs::path folder = StoreUnderTest(run.path()).store.save(sample_checkpoint(1));
  const fs::path optimizer = folder / "optimizer-00000-of-00001.safetensors";
  write_file(optimizer, std::string(fs::file_size(optimizer), '?'));
  CHECK_THROWS_AS(read_checkpoint(folder), CheckpointError);
  const CheckpointContents model = contents_of(StoredCheckpoint(folder, LoadScope::kModelOnly));
  CHECK(model.model.size() == 3);
  CHECK(model.optimizer.empty());
  CHECK(model.config_yaml == sample_checkpoint(1).config_yaml);
}

TEST_CASE("checkpoint: a moving average of the model is one more file, listed and checked as the others") {
  const TemporaryFolder run;
  CheckpointContents contents = sample_checkpoint(7);
  contents.average = {{"layers.0.wq", tensor_of<float>({2, 3}, {9, 8, 7, 6, 5, 4})}};
  const fs::path folder = StoreUnderTest(run.path()).store.save(contents);
  CHECK(names_in(folder) == Names{"config.yaml", "ema.safetensors", "manifest.json", "model.safetensors",
                                  "optimizer-00000-of-00001.safetensors", "trainer.json"});
  CHECK(same_checkpoint(read_checkpoint(folder), contents));
  const CheckpointContents model = contents_of(StoredCheckpoint(folder, LoadScope::kModelOnly));
  CHECK(model.average.size() == 1);
  CHECK(model.optimizer.empty());
  std::string bytes = read_file(folder / "ema.safetensors");
  bytes.back() ^= 1;
  write_file(folder / "ema.safetensors", bytes);
  CHECK_THROWS_AS(read_checkpoint(folder), CheckpointError);
  fs::remove(folder / "ema.safetensors");
  CHECK_THROWS_AS(StoredCheckpoint(folder), CheckpointError);
}

TEST_CASE("checkpoint: an empty model, texts of any kind and a metric that is no number") {
  const TemporaryFolder run;
  CheckpointContents contents;
  contents.trainer_json = std::string("\0\xff", 2);
  contents.metric = std::numeric_limits<double>::quiet_NaN();
  const CheckpointContents loaded = read_checkpoint(StoreUnderTest(run.path()).store.save(contents));
  contents.metric.reset();
  CHECK(same_checkpoint(loaded, contents));
}

TEST_CASE("checkpoint: a path means a step folder, a folder of them, or a run") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  const fs::path old = test.store.save(sample_checkpoint(9));
  const fs::path newest = test.store.save(sample_checkpoint(100'000'000));  // more digits than the names have
  CHECK(resolve_checkpoint(run.path()) == newest);
  CHECK(resolve_checkpoint(run / "") == newest);
  CHECK(resolve_checkpoint(run / "checkpoints") == newest);
  CHECK(resolve_checkpoint(run / "checkpoints/") == newest);
  CHECK(resolve_checkpoint(old) == old);
  CHECK(resolve_checkpoint(old / "") == old);
  fs::rename(old, run / "kept");  // a checkpoint may live anywhere under any name
  CHECK(resolve_checkpoint(run / "kept") == run / "kept");
  CHECK(read_checkpoint(run / "kept").step == 9);
}

TEST_CASE("checkpoint: a path without a checkpoint is refused with what was expected there") {
  const TemporaryFolder run;
  CHECK(message_of<CheckpointError>([&] { resolve_checkpoint(run / "none"); }) ==
        (run / "none").string() + ": expected a checkpoint, found no such file or folder");
  CHECK(message_of<CheckpointError>([&] { resolve_checkpoint(run.path()); }) ==
        run.path().string() +
            ": expected a run folder, a folder of checkpoints or a step_... folder, found no checkpoint "
            "there; `moh convert --format moh` makes one from a model in another format");
  write_file(run / "file", "x");
  CHECK_THROWS_AS(resolve_checkpoint(run / "file"), CheckpointError);
  fs::create_directory(run / "step_00000001");
  CHECK_THAT(
      message_of<CheckpointError>([&] { read_checkpoint(resolve_checkpoint(run / "step_00000001")); }),
      Contains("step_00000001/manifest.json: expected a readable file, found No such file or directory"));
}

TEST_CASE("checkpoint: an incomplete newest checkpoint is not passed over in silence") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  const fs::path older = test.store.save(sample_checkpoint(1));
  fs::remove(test.store.save(sample_checkpoint(2)) / "config.yaml");
  CHECK_THAT(message_of<CheckpointError>([&] { resolve_checkpoint(run.path()); }),
             Contains("step_00000002/config.yaml: expected a readable file") &&
                 Contains("; to use an older checkpoint, name its step folder"));
  CHECK(read_checkpoint(resolve_checkpoint(older)).step == 1);
}

TEST_CASE("checkpoint: names that only look like checkpoints do not count") {
  const TemporaryFolder run;
  StoreUnderTest(run.path()).store.save(sample_checkpoint(5));
  for (const char* name : {"step_", "step_7", "step_0000000x", "step_-0000001", "step_000000007",
                           "damaged-step_00000007-1", "step_00000007.bak", "step_99999999999999999999"}) {
    fs::create_directory(run / "checkpoints" / name);
  }
  const std::vector<CheckpointInfo> all = list_checkpoints(run / "checkpoints");
  REQUIRE(all.size() == 1);
  CHECK(all[0].step == 5);
  CHECK(all[0].complete());
  CHECK(list_checkpoints(run / "elsewhere").empty());
}

}  // namespace moh
