#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"
#include "train/apps/watch/run_files.h"
#include "train/apps/watch/run_settings.h"
#include "train/apps/watch/watch_api.h"

using namespace moh::watch;
namespace fs = std::filesystem;

TEST_CASE("watch: runs that differ in seed and folder alone are of one kind") {
  const Settings a = {{"seed", "1"}, {"output.dir", "a"}, {"model.top_k", "2"}, {"train.steps", "9"}};
  Settings b = a, c = a;
  b["seed"] = "2";
  b["output.dir"] = "b";
  c["model.top_k"] = "4";
  const std::vector<RunKind> kinds = kinds_of({a, b, c, {}});
  CHECK(kinds[0].group == kinds[1].group);
  CHECK(kinds[0].group != kinds[2].group);
  CHECK(kinds[1].seed == "2");
  CHECK(kinds_of({a, b, c})[2].differs == "model.top_k=4");
  CHECK(kinds[3].group.empty());
  CHECK(kinds_of({a, b})[0].differs.empty());
}

TEST_CASE("watch: files of a run are those under the names that it gives, and no links") {
  const moh::TemporaryFolder place;
  const fs::path run = place.path() / "run";
  fs::create_directories(run / "samples");
  const auto write = [](const fs::path& path) { std::ofstream(path) << "text"; };
  for (const char* name : {"sample.txt", "config.yaml", "trace.json", "trace.rank1.json",
                           "samples/step_00000002.png", "samples/other.png"})
    write(run / name);
  write(place.path() / "secret");
  fs::create_symlink(place.path() / "secret", run / "samples/step_00000003.png");
  std::vector<std::string> names;
  for (const RunFile& file : files_of(run)) names.push_back(file.name);
  CHECK(names == std::vector<std::string>{"sample.txt", "samples/step_00000002.png", "trace.json",
                                          "trace.rank1.json"});
  CHECK(read_run_file(run, "sample.txt") == "text");
  CHECK(read_run_file(run, "samples/step_00000002.png") == "text");
  for (const char* name :
       {"samples/step_00000003.png", "config.yaml", "../secret", "samples/../../secret",
        "samples/step_/../../../secret.png", "", "/etc/passwd", "trace.rank/../../secret.json"})
    CHECK_FALSE(read_run_file(run, name));
  fs::rename(run / "samples", place.path() / "elsewhere");
  fs::create_directory_symlink(place.path() / "elsewhere", run / "samples");
  CHECK_FALSE(read_run_file(run, "samples/step_00000002.png"));
  CHECK(files_of(run).size() == 3);
}

TEST_CASE("watch: a host that others could name is refused") {
  for (const char* own :
       {"127.0.0.1:8010", "127.0.0.1", "localhost:8010", "[::1]:8010", "[::1]", "box:1", "10.0.0.1"})
    CHECK(is_own_host(own, "box"));
  for (const char* other :
       {"evil.example", "127.0.0.1.evil.example:80", "localhost.evil.example", "", "[::1", "box.evil"})
    CHECK_FALSE(is_own_host(other, "box"));
}
