#include "train/base/io/failpoint.h"

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/base/io/durable_file.h"
#include "train/base/io/file_ops.h"

namespace moh {

namespace {

using Catch::Contains;

struct Armed {
  explicit Armed(std::string_view spec) { failpoint::arm(spec); }
  ~Armed() { failpoint::arm(""); }
};

}  // namespace

TEST_CASE("io: failpoint: acts on the named pass of the named point, once") {
  const Armed armed("a:b_2=EIO,c_1=ENOSPC");
  CHECK(MOH_FAILPOINT("a:b") == 0);
  CHECK(MOH_FAILPOINT("a:b") == EIO);
  CHECK(MOH_FAILPOINT("a:b") == 0);
  CHECK(MOH_FAILPOINT("c") == ENOSPC);
}

TEST_CASE("io: failpoint: MOH_FAIL kills the process on the spot") {
  const ChildResult child = run_in_child([] {
    ::setenv("MOH_FAIL", "here_2", 1);
    failpoint::arm_from_environment();
    static_cast<void>(MOH_FAILPOINT("here"));
    static_cast<void>(MOH_FAILPOINT("here"));
    return std::string("survived");
  });
  CHECK(child.signal == SIGKILL);
  CHECK(child.output.empty());
}

TEST_CASE("io: failpoint: refuses malformed specifications") {
  for (const char* spec : {"a", "a_", "a_0", "a_x", "a_1=", "a_1=EWHAT", "a_1,b", ",a_1", "_"}) {
    INFO(spec);
    CHECK_THAT(message_of<ConfigError>([&] { failpoint::arm(spec); }), Contains("MOH_FAIL: "));
  }
}

TEST_CASE("io: durable file: interrupted and short writes are taken up") {
  const TemporaryFolder folder;
  const Armed armed("io:write_1=EINTR,io:write_2=short,io:write_3=short,io:write_4=EINTR");
  write_file_durably(folder / "a", "0123456789");
  CHECK(read_file(folder / "a") == "0123456789");
}

TEST_CASE("io: durable file: any failing operation leaves the old file and no litter") {
  for (const char* spec : {"io:create_1=EACCES", "io:write_1=ENOSPC", "io:write_1=EIO", "io:write_1=EDQUOT",
                           "io:write_1=short,io:write_2=ENOSPC", "io:fsync_1=EIO", "io:rename_1=EIO"}) {
    INFO(spec);
    const TemporaryFolder folder;
    write_file_durably(folder / "a", "old");
    const Armed armed(spec);
    CHECK_THROWS_AS(write_file_durably(folder / "a", "new"), StorageError);
    CHECK(read_file(folder / "a") == "old");
    CHECK(list_directory(folder.path()).size() == 1);
  }
}

TEST_CASE("io: durable file: a failed fsync is not tried again") {
  const TemporaryFolder folder;
  const Armed armed("io:fsync_1=EIO");
  OutputFile file(folder / "a");
  file.write("x");
  CHECK_THAT(message_of<StorageError>([&] { file.sync_and_close(); }),
             Contains("a: fsync: expected success, found Input/output error"));
  CHECK(MOH_FAILPOINT("io:fsync") == 0);  // the second pass: nothing else had passed
}

TEST_CASE("io: durable file: a full disk is reported with the bytes that are missing") {
  const TemporaryFolder folder;
  const Armed armed("io:write_2=ENOSPC");
  OutputFile file(folder / "a", 1000);
  file.write(std::string(400, 'x'));
  CHECK_THAT(message_of<StorageError>([&] { file.write("y"); }),
             Contains("a: write: expected room for 600 more bytes, found ") &&
                 Contains(" bytes free (No space left on device); make room on this disk"));
}

TEST_CASE("io: folders: a file system that cannot sync folders is no error, one that fails to is") {
  const TemporaryFolder folder;
  {
    const Armed armed("io:fsync_dir_1=EINVAL");
    CHECK_NOTHROW(sync_directory(folder.path()));
  }
  const Armed armed("io:fsync_dir_1=EIO");
  CHECK_THROWS_AS(sync_directory(folder.path()), StorageError);
}

}  // namespace moh
