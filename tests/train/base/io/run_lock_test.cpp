#include "train/base/io/run_lock.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <optional>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"

namespace moh {

using Catch::Contains;

TEST_CASE("io: run lock: a second process is refused and told who holds it") {
  const TemporaryFolder folder;
  std::optional<RunLock> lock(std::in_place, folder.path());
  CHECK(lock->crashed_holder().empty());
  const auto take = [&] {
    const RunLock second(folder.path());
    return std::string("locked");
  };
  const ChildResult refused = run_in_child(take);
  CHECK(refused.exit_code == 1);
  CHECK_THAT(refused.output,
             Contains("expected a run folder that no other process uses, found one locked by host ") &&
                 Contains(", process " + std::to_string(::getpid()) + ", since ") &&
                 Contains("; stop that process or choose another output.dir"));
  CHECK_THROWS_AS(RunLock(folder.path()), ConfigError);  // nor twice in one process
  lock.reset();
  CHECK(run_in_child(take).output == "locked");
}

TEST_CASE("io: run lock: the lock of a process that died is free, and its holder known") {
  const TemporaryFolder folder;
  const ChildResult dying = run_in_child([&] {
    static const RunLock* const kept = new RunLock(folder.path());  // never released: the child just ends
    static_cast<void>(kept);
    return std::to_string(::getpid());
  });
  const RunLock lock(folder.path());
  CHECK_THAT(lock.crashed_holder(), Contains("process " + dying.output + ", since "));
}

TEST_CASE("io: run lock: a lock file with anything in it only changes the message") {
  const TemporaryFolder folder;
  write_file(folder / ".lock", std::string("\x1b[2J") + std::string(5000, 'x'));
  const RunLock lock(folder.path());
  CHECK_THAT(lock.crashed_holder(), Catch::StartsWith("\\x1b[2Jxxx"));
}

TEST_CASE("io: run lock: a folder that was moved, or whose lock was replaced, is no longer locked") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  const RunLock lock(folder / "run");
  CHECK(lock.is_new());
  CHECK_NOTHROW(lock.require_in_place());
  std::filesystem::rename(folder / "run", folder / "moved");
  CHECK_THAT(message_of<StorageError>([&] { lock.require_in_place(); }),
             Contains("run: expected the run folder that this process locked, found that it was removed"));
  std::filesystem::create_directory(folder / "run");
  const RunLock another(folder / "run");
  CHECK_THROWS_AS(lock.require_in_place(), StorageError);
  lock.remove();  // not that of another
  CHECK_NOTHROW(another.require_in_place());
}

TEST_CASE("io: run lock: a file that the lock made can be taken away") {
  const TemporaryFolder folder;
  {
    const RunLock lock(folder.path());
    lock.remove();
  }
  CHECK(std::filesystem::is_empty(folder.path()));
  write_file(folder / ".lock", "");
  CHECK_FALSE(RunLock(folder.path()).is_new());
}

TEST_CASE("io: run lock: a missing folder is a storage error") {
  CHECK_THAT(message_of<StorageError>([] { RunLock lock("/nonexistent/run"); }),
             Contains("/nonexistent/run/.lock: open: expected success, found No such file or directory"));
}

}  // namespace moh
