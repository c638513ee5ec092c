#include "train/apps/watch/line_follower.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

using namespace moh::watch;

namespace {

/// A file that is followed.
struct Followed {
  moh::TemporaryFolder folder;
  std::filesystem::path path = folder.path() / "metrics.jsonl";
  LineFollower follower{path};
  std::vector<std::string> lines;
  int restarts = 0;

  void write(const std::string& text, std::ios::openmode mode = std::ios::app) const {
    std::ofstream(path, std::ios::binary | mode) << text;
  }
  bool advance(std::size_t most = LineFollower::kMostLine) {
    return follower.advance(
        most,
        [this] {
          ++restarts;
          lines.clear();
        },
        [this](std::string_view line) { lines.emplace_back(line); });
  }
};

}  // namespace

TEST_CASE("watch: a file gives its lines as they come, half of one waits") {
  Followed file;
  CHECK_FALSE(file.advance());
  file.write("one\ntw");
  file.advance();
  CHECK(file.lines == std::vector<std::string>{"one"});
  file.write("o\n\nthree\n");
  file.advance();
  file.advance();
  CHECK(file.lines == std::vector<std::string>{"one", "two", "", "three"});
  CHECK(file.restarts == 0);
}

TEST_CASE("watch: a file that was cut, or written anew to any length, begins anew") {
  Followed file;
  file.write("step 1\nstep 2\nstep 3\n");
  file.advance();
  file.write("step 1\n", std::ios::trunc);
  file.advance();
  CHECK(file.lines == std::vector<std::string>{"step 1"});
  file.write("other 1\nother 2\n", std::ios::trunc);
  file.advance();
  CHECK(file.lines == std::vector<std::string>{"other 1", "other 2"});
  CHECK(file.restarts == 2);
  std::filesystem::remove(file.path);
  file.advance();
  CHECK(file.lines.empty());
}

TEST_CASE("watch: large files come in pieces, and lines beyond the limit are passed over") {
  Followed file;
  file.write(std::string(LineFollower::kMostLine + 5, 'x'));
  file.advance();
  file.write(std::string(LineFollower::kMostLine, 'y') + "\nshort\n" +
             std::string(3 * LineFollower::kMostLine, 'z') + "\nlast\n");
  while (file.advance()) {
  }
  CHECK(file.lines == std::vector<std::string>{"short", "last"});
  CHECK(file.follower.bytes_read() == file.follower.bytes());
}
