#include "train/base/io/durable_file.h"

#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "train/base/io/file_ops.h"
#include "train/base/io/temporary_files.h"

namespace moh {

namespace fs = std::filesystem;
using Catch::Contains;

TEST_CASE("io: durable file: appears complete, replaces what was there, leaves nothing else") {
  const TemporaryFolder folder;
  write_file_durably(folder / "a", "old");
  {
    DurableFile file(folder / "a");
    file.write("new");
    CHECK(read_file(folder / "a") == "old");
    file.write(" text");
    file.commit();
  }
  CHECK(read_file(folder / "a") == "new text");
  CHECK(list_directory(folder.path()).size() == 1);
}

TEST_CASE("io: durable file: without a commit the old file stays and the temporary one goes") {
  const TemporaryFolder folder;
  write_file_durably(folder / "a", "old");
  { DurableFile(folder / "a").write("half"); }
  CHECK(read_file(folder / "a") == "old");
  CHECK(list_directory(folder.path()).size() == 1);
}

TEST_CASE("io: durable file: what a killed process left is removed, and nothing else") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", ".a", ".b.tmp-1234", ".a.tmp", ".a.tmp-1234", ".a.tmp-5678"}) {
    write_file_durably(folder / name, "text");
  }
  remove_abandoned_temporaries(folder / "a");
  std::vector<std::string> left;
  for (const fs::path& path : list_directory(folder.path())) left.push_back(path.filename().string());
  std::sort(left.begin(), left.end());
  CHECK(left == std::vector<std::string>{".a", ".a.tmp", ".b.tmp-1234", "a", "b"});
}

TEST_CASE(
    "io: durable file: what nobody writes any more is removed from a folder, and what somebody writes is "
    "not") {
  const TemporaryFolder folder;
  const std::string abandoned = ".a.tmp-0123456789abcdef", tree = ".t.tmp-ffffffffffffffff";
  for (const char* name : {".a.tmp-0123456789abcdef", ".a.tmp-0123456789abcde", ".tmp-0123456789abcdef",
                           "a.tmp-0123456789abcdef", ".a.tmp-0123456789ABCDEF", ".a.old-0123456789abcdef"})
    write_new_file(folder / name, "half");
  fs::create_directories(folder / tree / "inner");
  write_new_file(folder / tree / "inner/file", "half");
  fs::create_symlink("nowhere", folder / ".l.tmp-0123456789abcdef");
  {
    DurableFile file(folder / "b");
    DurableFolder made(folder / "c");
    remove_abandoned_temporaries_in(folder.path());
    CHECK_FALSE(fs::exists(folder / abandoned));
    CHECK_FALSE(fs::exists(folder / tree));
    CHECK(fs::exists(made.temporary()));
    CHECK(list_directory(folder.path()).size() == 8);
    file.write("whole");
    file.commit();
    made.commit();
  }
  CHECK(read_file(folder / "b") == "whole");
  CHECK(fs::is_directory(folder / "c"));
  CHECK(list_directory(folder.path()).size() == 8);
  CHECK_NOTHROW(remove_abandoned_temporaries_in(folder / "none"));
}

TEST_CASE("io: durable file: the first file in a folder removes what was left there") {
  const TemporaryFolder folder;
  write_new_file(folder / ".a.tmp-0123456789abcdef", "half");
  write_file_durably(folder / "b", "text");
  CHECK(list_directory(folder.path()).size() == 1);
}

TEST_CASE("io: durable file: a missing folder is a storage error that names the path") {
  const TemporaryFolder folder;
  CHECK_THAT(
      message_of<StorageError>([&] { write_file_durably(folder / "none/a", "x"); }),
      Contains("none/.a.tmp-") && Contains("create: expected success, found No such file or directory"));
}

TEST_CASE("io: durable file: the file size limit is an error, not a signal") {
  const TemporaryFolder folder;
  write_file_durably(folder / "a", "old");
  const ChildResult child = run_in_child([&] {
    const rlimit limit{.rlim_cur = 1000, .rlim_max = 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    write_file_durably(folder / "a", std::string(3000, 'x'));
    return std::string("written");
  });
  CHECK(child.signal == 0);
  CHECK(child.exit_code == 1);
  CHECK_THAT(child.output,
             Contains("write: expected room for 2000 more bytes, found ") &&
                 Contains(" bytes free (File too large); raise the file size limit (ulimit -f)"));
  CHECK(read_file(folder / "a") == "old");
  CHECK(list_directory(folder.path()).size() == 1);
}

TEST_CASE("io: output file: never overwrites") {
  const TemporaryFolder folder;
  write_file(folder / "a", "mine");
  CHECK_THAT(message_of<StorageError>([&] { OutputFile file(folder / "a"); }), Contains("File exists"));
  CHECK(read_file(folder / "a") == "mine");
}

TEST_CASE("io: folders: are made with those above, and removed without following links") {
  const TemporaryFolder folder;
  make_directories(folder / "a/b/c");
  make_directories(folder / "a/b/c");
  write_file(folder / "kept", "x");
  write_file(folder / "a/file", "x");
  fs::create_symlink(folder / "kept", folder / "a/link");
  fs::create_directory_symlink(folder.path(), folder / "a/b/up");
  remove_tree(folder / "a");
  remove_tree(folder / "a");
  CHECK_FALSE(fs::exists(folder / "a"));
  CHECK(read_file(folder / "kept") == "x");
  CHECK_THAT(message_of<StorageError>([&] { make_directories(folder / "kept/below"); }),
             Contains("/kept: mkdir: expected success, found File exists"));
}

}  // namespace moh
