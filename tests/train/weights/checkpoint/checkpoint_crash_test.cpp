#include <catch2/catch.hpp>
#include <csignal>
#include <random>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/io/crash_disk.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/io/failpoint.h"

namespace moh {

namespace {

namespace fs = std::filesystem;
using Catch::Contains;
using Names = std::vector<std::string>;

constexpr RetentionPolicy kKeepOne = {.keep_last = 1, .keep_best = false};

/// The checkpoint that a run finds after the crash of the one that saved `b` over or beside `a`.
CheckpointContents resume_after_crash(const fs::path& run) {
  StoreUnderTest test(run, kKeepOne);
  CHECK(test.warnings.empty());
  for (const std::string& name : names_in(test.store.folder())) CHECK(name.starts_with("step_"));
  const auto newest = test.store.open_newest(/*allow_older=*/false);
  REQUIRE(newest.has_value());
  return contents_of(*newest);
}

/// Saves `b` in a child that dies at one point after the other, in a run that has `a`.
void kill_everywhere(const CheckpointContents& a, const CheckpointContents& b) {
  int kills = 0;
  for (const char* point :
       {"io:create", "io:mkdir", "io:write", "io:fsync", "io:rename", "io:fsync_dir", "io:unlink", "io:rmdir",
        "ckpt:after_write", "ckpt:before_publish", "ckpt:after_publish"}) {
    for (int pass = 1;; ++pass) {
      const TemporaryFolder run;
      StoreUnderTest(run.path(), kKeepOne).store.save(a);
      const std::string spec = std::string(point) + "_" + std::to_string(pass);
      const ChildResult child = run_in_child([&] {
        StoreUnderTest test(run.path(), kKeepOne);
        failpoint::arm(spec);
        test.store.save(b);
        return std::string("saved");
      });
      INFO(spec);
      if (child.output == "saved") break;
      REQUIRE(child.signal == SIGKILL);
      ++kills;
      const CheckpointContents found = resume_after_crash(run.path());
      CHECK((same_checkpoint(found, a) || same_checkpoint(found, b)));
      // The run that resumes saves that step again.
      StoreUnderTest again(run.path(), kKeepOne);
      again.store.save(b);
      CHECK(same_checkpoint(*again.store.open_newest(false), b));
      CHECK(names_in(again.store.folder()).size() == 1);
    }
  }
  CHECK(kills >= 30);
}

}  // namespace

TEST_CASE(
    "checkpoint: crash: killed at any operation of a save, the run has the checkpoint before or this one") {
  kill_everywhere(sample_checkpoint(1), sample_checkpoint(2));
}

TEST_CASE("checkpoint: crash: killed at any operation of replacing a checkpoint, one of the two is there") {
  CheckpointContents other = sample_checkpoint(1);
  other.metric = 3.0;
  kill_everywhere(sample_checkpoint(1), other);
}

namespace {

/// Every state in which a power cut during a save can leave the disk resumes from `a` or from `b`, and from
/// `b` once the save has returned.
void cut_power_everywhere(const CheckpointContents& a, const CheckpointContents& b) {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), kKeepOne);
  test.store.save(a);
  CrashDisk disk(run.path());
  std::vector<IoEvent> events;
  {
    const IoTrace trace;
    test.store.save(b);
    events = trace.events();
  }
  REQUIRE(events.size() > 30);
  std::mt19937 random(11);
  for (std::size_t i = 0; i <= events.size(); ++i) {
    if (i > 0) disk.apply(events[i - 1]);
    using Luck = CrashDisk::Luck;
    for (Luck luck : {Luck::kLoseAll, Luck::kKeepAll, Luck::kLoseContents, Luck::kLoseEntries, Luck::kRandom,
                      Luck::kRandom}) {
      INFO("after " << i << " of " << events.size() << " operations, luck " << static_cast<int>(luck));
      const TemporaryFolder after;
      disk.crash(luck, random, after.path());
      const CheckpointContents found = resume_after_crash(after.path());
      CHECK((same_checkpoint(found, b) || (i < events.size() && same_checkpoint(found, a))));
    }
  }
}

}  // namespace

TEST_CASE("checkpoint: crash: every state that a power cut can leave resumes from a complete checkpoint") {
  cut_power_everywhere(sample_checkpoint(1), sample_checkpoint(2));
}

TEST_CASE("checkpoint: crash: nor does a power cut lose anything while a checkpoint is replaced") {
  CheckpointContents other = sample_checkpoint(1);
  other.metric = 3.0;
  cut_power_everywhere(sample_checkpoint(1), other);
}

TEST_CASE("checkpoint: crash: the model of a forgetful disk notices a missing fsync") {
  // Otherwise the two cases above would prove nothing: leave out one kind of sync, and some state must be
  // lost.
  for (const IoEvent::Kind skipped : {IoEvent::Kind::kSyncFile, IoEvent::Kind::kSyncDirectory}) {
    const TemporaryFolder run;
    StoreUnderTest test(run.path(), kKeepOne);
    test.store.save(sample_checkpoint(1));
    CrashDisk disk(run.path());
    const IoTrace trace;
    test.store.save(sample_checkpoint(2));
    for (const IoEvent& event : trace.events()) {
      if (event.kind != skipped) disk.apply(event);
    }
    std::mt19937 random(1);
    const TemporaryFolder after;
    disk.crash(CrashDisk::Luck::kLoseContents, random, after / "contents");
    disk.crash(CrashDisk::Luck::kLoseEntries, random, after / "entries");
    const auto lost = [](const fs::path& folder) {
      try {
        const auto found = StoreUnderTest(folder).store.open_newest(false);
        return !found || found->step() != 2;
      } catch (const CheckpointError&) {
        return true;
      }
    };
    CHECK((lost(after / "contents") || lost(after / "entries")));
  }
}

TEST_CASE("checkpoint: crash: an operation that fails leaves the checkpoint before and no litter") {
  for (const char* spec :
       {"io:mkdir_1=ENOSPC", "io:create_3=ENOSPC", "io:write_2=ENOSPC", "io:write_9=EIO", "io:write_4=EDQUOT",
        "io:fsync_1=EIO", "io:fsync_5=EIO", "io:fsync_dir_1=EIO", "io:fsync_dir_2=EIO", "io:rename_1=EIO"}) {
    INFO(spec);
    const TemporaryFolder run;
    StoreUnderTest test(run.path());
    test.store.save(sample_checkpoint(1));
    failpoint::arm(spec);
    CHECK_THROWS_AS(test.store.save(sample_checkpoint(2)), StorageError);
    failpoint::arm("");
    CHECK(names_in(test.store.folder()) == Names{"step_00000001"});
    CHECK(test.store.open_newest(false)->step() == 1);
    test.store.save(sample_checkpoint(2));
    CHECK(test.store.open_newest(false)->step() == 2);
  }
}

TEST_CASE("checkpoint: crash: a replacement that fails leaves the checkpoint that it was to replace") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path());
  test.store.save(sample_checkpoint(1));
  CheckpointContents other = sample_checkpoint(1);
  other.metric = 3.0;
  for (const char* spec : {"io:rename_1=EIO", "io:rename_2=EIO"}) {
    INFO(spec);
    failpoint::arm(spec);
    CHECK_THROWS_AS(test.store.save(other), StorageError);
    failpoint::arm("");
    CHECK(names_in(test.store.folder()) == Names{"step_00000001"});
    CHECK(same_checkpoint(*test.store.open_newest(false), sample_checkpoint(1)));
  }
}

TEST_CASE("checkpoint: crash: an old checkpoint that cannot be removed is a warning") {
  const TemporaryFolder run;
  StoreUnderTest test(run.path(), kKeepOne);
  test.store.save(sample_checkpoint(1));
  failpoint::arm("io:rename_2=EPERM");  // the first publishes
  test.store.save(sample_checkpoint(2));
  failpoint::arm("io:unlink_1=EPERM");  // now 1 can go out of sight, but not away
  test.store.save(sample_checkpoint(3));
  failpoint::arm("");
  REQUIRE(test.warnings.size() == 2);
  CHECK_THAT(test.warnings[0],
             Contains("old checkpoint not removed: ") && Contains("Operation not permitted"));
  CHECK(test.store.open_newest(false)->step() == 3);
  StoreUnderTest next(run.path(), kKeepOne);
  CHECK(names_in(next.store.folder()) == Names{"step_00000003"});
}

}  // namespace moh
