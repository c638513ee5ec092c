#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"
#include "tests/train/families/images/data/tar_bytes.h"
#include "train/families/images/data/picture_source.h"

using namespace moh;
using namespace moh::test;
namespace fs = std::filesystem;

namespace {

std::string contents_of(const std::vector<std::string>& paths) {
  return open_pictures(paths)->describe_contents();
}

/// The part of a description that is about names and places.
std::string places_of(const std::string& contents) {
  return contents.substr(0, contents.find(", of contents"));
}

}  // namespace

TEST_CASE("data contents: exchanged pictures and classes of a folder are noticed") {
  const TemporaryFolder folder, copy;
  for (const char* name : {"a/1.png", "a/2.png", "b/1.png", "b/2.png"}) {
    write_file(folder / ("d/" + std::string(name)), std::string(20000, 'x') + name);
    write_file(copy / ("e/" + std::string(name)), std::string(20000, 'x') + name);
  }
  const std::string path = (folder / "d").string(), before = contents_of({path});
  CHECK(contents_of({(copy / "e").string()}) == before);  // wherever they lie
  const auto changed = [&] {
    const std::string now = contents_of({path});
    CHECK(places_of(now) == places_of(before));  // the names are the same
    return now != before;
  };
  // Classes change places.
  fs::rename(folder / "d/a", folder / "t");
  fs::rename(folder / "d/b", folder / "d/a");
  fs::rename(folder / "t", folder / "d/b");
  CHECK(changed());
  fs::rename(folder / "d/a", folder / "t");
  fs::rename(folder / "d/b", folder / "d/a");
  fs::rename(folder / "t", folder / "d/b");
  CHECK_FALSE(changed());
  // Another size; the same size with another end.
  const std::string sound = read_file(folder / "d/b/1.png");
  write_file(folder / "d/b/1.png", sound + "x");
  CHECK(changed());
  write_file(folder / "d/b/1.png", sound.substr(0, sound.size() - 1) + "y");
  CHECK(changed());
}

TEST_CASE("data contents: the size of every picture of a large folder counts") {
  const TemporaryFolder folder;
  for (int i = 0; i < 700; ++i) write_file(folder / ("d/a/" + std::to_string(i) + ".png"), "x");
  const std::string before = contents_of({(folder / "d").string()});
  for (const char* name : {"d/a/3.png", "d/a/699.png", "d/a/312.png"}) {
    write_file(folder / name, "xx");
    CHECK(contents_of({(folder / "d").string()}) != before);
    write_file(folder / name, "x");
    CHECK(contents_of({(folder / "d").string()}) == before);
  }
}

TEST_CASE("data contents: exchanged archives, and archives in another order, are noticed") {
  const TemporaryFolder folder;
  const auto archive = [](const std::string& picture, const std::string& label) {
    return tar_of({{"0.png", picture}, {"0.cls", label}, {"1.png", picture + "1"}, {"1.cls", "0"}});
  };
  const std::string one = write_file(folder / "s1.tar", archive("one", "0")),
                    two = write_file(folder / "s2.tar", archive("two", "0"));
  const std::string before = contents_of({folder.path().string()});
  fs::rename(one, folder / "s9.tar");  // of the same layout: another order
  CHECK(places_of(contents_of({folder.path().string()})) == places_of(before));
  CHECK(contents_of({folder.path().string()}) != before);
  fs::rename(folder / "s9.tar", one);
  CHECK(contents_of({folder.path().string()}) == before);
  for (const std::string& other : {archive("tvo", "0"), archive("two", "1")}) {
    rewrite_with_its_time(two, other);
    CHECK(contents_of({folder.path().string()}) != before);
  }
}
