#include "train/trainer/task/data/input_files.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/unprivileged_scope.h"

using namespace moh;
namespace fs = std::filesystem;

namespace {

/// Paths relative to `folder`.
std::vector<std::string> list(const TemporaryFolder& folder, std::vector<std::string> inputs,
                              SkippedFiles& skipped) {
  for (std::string& input : inputs) input = (folder / input).string();
  std::vector<std::string> names;
  for (const InputPath& file : list_input_files(inputs, skipped)) {
    names.push_back(fs::path(file.path).lexically_normal().lexically_relative(folder.path()).string());
  }
  return names;
}

std::optional<std::string> read_text(const InputPath& input, SkippedFiles& skipped) {
  std::string text;
  const bool is_text = stream_text(input, skipped, [&](std::string_view block) { text += block; });
  return is_text ? std::optional(text) : std::nullopt;
}

}  // namespace

TEST_CASE("data: folders are walked in the order of their names, without hidden entries") {
  const TemporaryFolder folder;
  for (const char* name : {"b/2.txt", "b/1.txt", "a.txt", "c/d/e/deep.txt", ".git/config", "b/.hidden"}) {
    write_file(folder / name, "x");
  }
  SkippedFiles skipped;
  CHECK(list(folder, {"."}, skipped) ==
        std::vector<std::string>{"a.txt", "b/1.txt", "b/2.txt", "c/d/e/deep.txt"});
  CHECK(list(folder, {"c", "b/2.txt"}, skipped) == std::vector<std::string>{"c/d/e/deep.txt", "b/2.txt"});
  CHECK(list(folder, {".git/config"}, skipped) == std::vector<std::string>{".git/config"});  // named: wanted
  CHECK(skipped.count() == 0);
}

TEST_CASE("data: links are followed once, loops end, and a broken link is skipped") {
  const TemporaryFolder folder;
  write_file(folder / "data/GPL-3", "text");
  write_file(folder / "elsewhere/far.txt", "text");
  fs::create_symlink("GPL-3", folder / "data/GPL");
  fs::create_symlink("../data", folder / "data/loop");
  fs::create_symlink("../elsewhere", folder / "data/zone");
  fs::create_symlink("nowhere", folder / "data/broken");
  fs::create_symlink("circle", folder / "data/circle");
  SkippedFiles skipped;
  // "loop" leads to the folder itself: nothing of it is read twice.
  CHECK(list(folder, {"data"}, skipped) == std::vector<std::string>{"data/GPL", "data/zone/far.txt"});
  CHECK(skipped.describe().find("2 broken link (first: " + (folder / "data/broken").string() + ")") == 0);
  CHECK(list(folder, {"data/GPL", "data/GPL-3"}, skipped) == std::vector<std::string>{"data/GPL"});
}

TEST_CASE("data: what is no file is skipped in a folder and refused by name") {
  const TemporaryFolder folder;
  write_file(folder / "a.txt", "x");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  SkippedFiles skipped;
  CHECK(list(folder, {"."}, skipped) == std::vector<std::string>{"a.txt"});
  CHECK(skipped.count() == 1);
  CHECK_THROWS_WITH(
      list(folder, {"pipe"}, skipped),
      (folder / "pipe").string() + ": expected a regular file or a folder, found a device, FIFO or socket");
}

TEST_CASE("data: missing and unreadable inputs are refused with path and reason") {
  const TemporaryFolder folder;
  SkippedFiles skipped;
  CHECK_THROWS_AS(list(folder, {"absent"}, skipped), DataError);
  CHECK_THROWS_WITH(list(folder, {"absent"}, skipped),
                    (folder / "absent").string() + ": cannot read: No such file or directory");

  write_file(folder / "open/locked/x.txt", "x");
  const std::string secret = write_file(folder / "open/secret.txt", "x");
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder / "open", fs::perms::all);
  fs::permissions(folder / "open/locked", fs::perms::none);
  fs::permissions(secret, fs::perms::none);
  {
    const UnprivilegedScope unprivileged;
    CHECK_THROWS_AS(list(folder, {"open"}, skipped), DataError);
    CHECK_THROWS_WITH(list(folder, {"open"}, skipped),
                      (folder / "open/locked").string() + ": cannot read: Permission denied");
    CHECK_THROWS_AS(read_text({secret, false}, skipped), DataError);
    CHECK_THROWS_WITH(read_text({secret, false}, skipped),
                      Catch::StartsWith(secret) && Catch::EndsWith("Permission denied"));
  }
  fs::permissions(folder / "open/locked", fs::perms::owner_all);
}

TEST_CASE("data: empty and binary files are skipped in a folder and refused by name") {
  const TemporaryFolder folder;
  const std::string text = write_file(folder / "a.txt", "text\n");
  const std::string empty = write_file(folder / "empty", "");
  const std::string binary = write_file(folder / "binary", std::string("\x7f"
                                                                       "ELF\0\0",
                                                                       6));
  SkippedFiles skipped;
  CHECK(read_text({text, true}, skipped) == "text\n");
  const std::string long_text(2 * kTextBlockBytes + 1, 'x');
  CHECK(read_text({write_file(folder / "long", long_text), false}, skipped) == long_text);
  CHECK(read_text({empty, false}, skipped) == std::nullopt);
  CHECK(read_text({binary, false}, skipped) == std::nullopt);
  CHECK(read_text({binary, false}, skipped) == std::nullopt);
  const std::string late = write_file(folder / "late", long_text + '\0');
  CHECK(read_text({late, false}, skipped) == std::nullopt);
  CHECK(skipped.count() == 4);
  CHECK(skipped.describe() == "1 empty (first: " + empty + "), 3 binary (first: " + binary + ")");
  CHECK_THROWS_WITH(read_text({empty, true}, skipped), empty + ": expected text, found an empty file");
  CHECK_THROWS_WITH(read_text({binary, true}, skipped),
                    binary + ": expected text, found a binary file (NUL bytes)");
}
