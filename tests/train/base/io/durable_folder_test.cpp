#include "train/base/io/durable_file.h"

#include <catch2/catch.hpp>

#include "tests/support/temporary_folder.h"
#include "tests/train/weights/checkpoint/sample_checkpoint.h"
#include "train/base/io/file_ops.h"

namespace moh {

TEST_CASE("io: durable folder: appears complete, replaces what was there, leaves nothing else") {
  const TemporaryFolder folder;
  write_file(folder / "a/old", "1");
  {
    DurableFolder made(folder / "a/");
    write_new_file(made.temporary() / "new", "2");
    CHECK(names_in(folder / "a") == std::vector<std::string>{"old"});
    made.commit();
  }
  CHECK(names_in(folder / "a") == std::vector<std::string>{"new"});
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
}

TEST_CASE("io: durable folder: without a commit the old one stays and the temporary one goes") {
  const TemporaryFolder folder;
  write_file(folder / "a/old", "1");
  { write_new_file(DurableFolder(folder / "a").temporary() / "half", "2"); }
  CHECK(names_in(folder / "a") == std::vector<std::string>{"old"});
  CHECK(names_in(folder.path()) == std::vector<std::string>{"a"});
}

TEST_CASE("io: durable folder: folders above it are made, and what a killed process left is cleared away") {
  const TemporaryFolder folder;
  write_file(temporary_beside(folder / "a") / "half", "1");
  write_file(folder / ".b.tmp-123/half", "of somebody else");
  remove_abandoned_temporaries(folder / "a");
  CHECK(names_in(folder.path()) == std::vector<std::string>{".b.tmp-123"});
  DurableFolder made(folder / "x/y/z");
  made.commit();
  CHECK(std::filesystem::is_directory(folder / "x/y/z"));
}

}  // namespace moh
