#include <catch2/catch.hpp>
#include <random>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/io/crash_disk.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/failpoint.h"

namespace moh {

namespace {

/// Does the work that restore_replaced() finds to do, then makes the folder again, as the next conversion
/// does.
void make_again(const std::filesystem::path& path, const std::string& file) {
  restore_replaced(path);
  remove_abandoned_temporaries(path);
  DurableFolder made(path);
  write_new_file(made.temporary() / file, "2");
  made.commit();
}

/// Replaces `folder`/a, which holds "old", under these failure points: in a child process, which they may
/// kill.
ChildResult replace_failing(const TemporaryFolder& folder, const std::string& failures) {
  return run_in_child([&] {
    failpoint::arm(failures);
    try {
      make_again(folder / "a", "new");
    } catch (const StorageError& error) {
      return std::string(error.what());
    }
    return std::string("made");
  });
}

}  // namespace

TEST_CASE("io: durable folder: a complete folder has the name at every moment of its replacement") {
  for (const char* point : {"io:rename", "io:exchange", "io:fsync_dir", "io:unlink", "io:rmdir"}) {
    for (const char* action : {"kill", "EIO"}) {
      for (int pass = 1;; ++pass) {
        const TemporaryFolder folder;
        write_file(folder / "a/old", "1");
        const std::string failure = std::string(point) + "_" + std::to_string(pass) + "=" + action;
        INFO(failure);
        const ChildResult child = replace_failing(folder, failure);
        const std::vector<std::string> names = names_in(folder / "a");
        CHECK((names == std::vector<std::string>{"old"} || names == std::vector<std::string>{"new"}));
        make_again(folder / "a", "newer");
        CHECK(names_in(folder / "a") == std::vector<std::string>{"newer"});
        CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
        if (child.output == "made") break;
      }
    }
  }
}

// As on many network file systems.
TEST_CASE("io: durable folder: where names cannot be exchanged, the old folder gets its name back") {
  const std::string no_exchange = "io:exchange_1=EINVAL";
  for (const char* failure :
       {"", ",io:rename_1=kill", ",io:rename_2=kill", ",io:rename_2=EIO", ",io:fsync_dir_3=kill",
        ",io:unlink_1=kill", ",io:rename_2=EIO,io:rename_3=EIO"}) {
    INFO(failure);
    const TemporaryFolder folder;
    write_file(folder / "a/old", "1");
    const ChildResult child = replace_failing(folder, no_exchange + failure);
    const bool between =
        std::string_view(failure).ends_with("_2=kill") || std::string_view(failure).ends_with("_3=EIO");
    CHECK(std::filesystem::exists(folder / "a") != between);
    if (std::string_view(failure).ends_with("_3=EIO"))
      CHECK_THAT(child.output, Catch::Contains("; the previous folder of this name is now "));
    restore_replaced(folder / "a");
    const std::vector<std::string> names = names_in(folder / "a");
    CHECK((names == std::vector<std::string>{"old"} || names == std::vector<std::string>{"new"}));
    if (between) CHECK(names == std::vector<std::string>{"old"});
    make_again(folder / "a", "newer");
    CHECK(names_in(folder / "a") == std::vector<std::string>{"newer"});
    CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
  }
}

TEST_CASE("io: durable folder: whatever a power cut keeps of a replacement, a complete folder has the name") {
  const TemporaryFolder folder;
  write_file(folder / "a/old", "1");
  CrashDisk disk(folder.path());
  std::vector<IoEvent> events;
  {
    const IoTrace trace;
    make_again(folder / "a", "new");
    events = trace.events();
  }
  std::mt19937 random(1);
  for (const IoEvent& event : events) {
    disk.apply(event);
    for (int i = 0; i < 8; ++i) {
      const TemporaryFolder after;
      disk.crash(i == 0 ? CrashDisk::Luck::kLoseAll : CrashDisk::Luck::kRandom, random, after.path());
      const bool is_new = std::filesystem::exists(after / "a/new");
      CHECK(read_file(after / (is_new ? "a/new" : "a/old")) == (is_new ? "2" : "1"));
    }
  }
}

}  // namespace moh
