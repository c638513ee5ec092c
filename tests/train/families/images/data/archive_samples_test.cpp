#include "train/families/images/data/archive_samples.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/images/data/tar_bytes.h"
#include "train/families/images/data/picture_source.h"

using namespace moh;
using namespace moh::test;

namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

ShardIndex index_of(const Members& members) {
  const TemporaryFolder folder;
  return make_shard_index(write_file(folder / "a.tar", tar_of(members)));
}

/// The refusal of an archive a.tar, which every way of opening it gives.
std::string refused_archive(const Members& members) {
  const TemporaryFolder folder;
  const std::string path = write_file(folder / "a.tar", tar_of(members));
  std::string message = message_of<DataError>([&] { make_shard_index(path); });
  CHECK(message_of<DataError>([&] { open_pictures({path}); }) == message);
  CHECK_THAT(message, Catch::Contains("a.tar: "));
  return message;
}

const std::string picture_bytes = "some picture";

}  // namespace

TEST_CASE("webdataset: the picture of a sample has an extension of its own, other fields are passed over") {
  const ShardIndex index = index_of({{"0.jpg", picture_bytes},
                                     {"0.seg.png", "mask"},
                                     {"0.cls", "4"},
                                     {"0.json", "{}"},
                                     {"1.depth.png", "depth"},
                                     {"1.CLS", " 5\r\n"},
                                     {"1.PNG", picture_bytes},
                                     {"2.cls", "0"},
                                     {"3.JPEG", picture_bytes},
                                     {"2.jpeg", picture_bytes},
                                     {"3.cls", "7"}});
  CHECK(index.labels == std::vector<std::int64_t>{4, 5, 7, 0});
  CHECK(index.class_names.empty());
  CHECK(index.offsets.front() == 512);
}

TEST_CASE("webdataset: samples with two pictures, none, or two labels are refused by archive and member") {
  CHECK_THAT(refused_archive({{"0.left.png", picture_bytes},
                              {"0.right.png", picture_bytes},
                              {"0.cls", "0"},
                              {"1.png", picture_bytes},
                              {"1.cls", "1"}}),
             Catch::Contains("member 0.left.png: expected a picture of the key 0: 0.jpg, .jpeg or .png, "
                             "found 0.left.png, 0.right.png alone"));
  CHECK_THAT(refused_archive({{"0.jpg", picture_bytes}, {"0.png", picture_bytes}, {"0.cls", "0"}}),
             Catch::Contains("member 0.png: expected one picture for each key, found a second for 0, after "
                             "0.jpg"));
  CHECK_THAT(
      refused_archive({{"0.png", picture_bytes}, {"0.cls", "0"}, {"0.png", picture_bytes}, {"0.cls", "0"}}),
      Catch::Contains("member 0.png: expected one picture"));
  CHECK_THAT(
      refused_archive(
          {{"0.png", picture_bytes}, {"1.png", picture_bytes}, {"0.png", picture_bytes}, {"0.cls", "0"}}),
      Catch::Contains("member 0.png: expected one picture"));
  CHECK_THAT(refused_archive({{"0.png", picture_bytes}, {"0.cls", "0"}, {"0.cls", "1"}}),
             Catch::Contains("member 0.cls: expected one label for each key, found a second for 0"));
  CHECK_THAT(refused_archive({{"0.cls", "0"}, {"0.webp", "x"}, {"1.png", picture_bytes}, {"1.cls", "1"}}),
             Catch::Contains("member 0.cls: expected a picture of the key 0"));
  CHECK_THAT(refused_archive({{"d/0.png", picture_bytes}, {"0.cls", "1"}}),
             Catch::Contains("picture d/0: expected a label beside it, d/0.cls, found none for d/0.png"));
}

TEST_CASE("webdataset: a key may come again after other samples, as in archives that were joined") {
  const ShardIndex index = index_of({{"0.png", picture_bytes},
                                     {"0.cls", "3"},
                                     {"1.png", picture_bytes},
                                     {"1.cls", "1"},
                                     {"0.cls", "2"},
                                     {"0.png", picture_bytes}});
  CHECK(index.labels == std::vector<std::int64_t>{3, 1, 2});
}

TEST_CASE("webdataset: labels are numbers of classes, of any number of digits or none refused by member") {
  const auto labelled = [](const std::string& label) {
    return Members{{"0.png", picture_bytes}, {"0.cls", label}};
  };
  CHECK(index_of(labelled("15075141")).labels.front() == 15075141);
  for (const char* label : {"67108864", "2147483647", "9223372036854775807", "99999999999999999999"})
    CHECK_THAT(refused_archive(labelled(label)),
               Catch::Contains("member 0.cls: expected the number of a class, less than 67108864, found " +
                               std::string(label)));
  for (const char* label : {"cat", "-1", "", "1.0", "0x1", "1 2", "-99999999999999999999"})
    CHECK_THAT(refused_archive(labelled(label)),
               Catch::Contains("member 0.cls: expected the number of a class, found"));
  CHECK_THAT(refused_archive(labelled("1" + std::string(40, ' '))),
             Catch::Contains("expected the number of a class"));
}

TEST_CASE("webdataset: labels that are not found, and why") {
  CHECK_THAT(
      refused_archive({{"22.05.jpg", picture_bytes}, {"22.05.cls", "1"}}),
      Catch::Contains("found neither; 22.05.cls is not a label: a key ends at the first dot of the name, "
                      "here 22, and 05.cls is its extension"));
  // In folders, too, whose names would be taken for classes.
  CHECK_THAT(refused_archive({{"a/22.05.jpg", picture_bytes}, {"a/22.05.cls", "1"}}),
             Catch::Contains("here a/22"));
  CHECK_THAT(
      refused_archive({{"0.jpg", picture_bytes}, {"0.json", "{\"label\": 3}"}}),
      Catch::Contains("found neither; labels are not read from files such as 0.json: write the number of "
                      "the class to 0.cls"));
  CHECK_THAT(refused_archive({{"0.jpg", picture_bytes}, {"0.txt", "3"}}), Catch::Contains("such as 0.txt"));
  CHECK_THAT(refused_archive({{"./0.jpg", picture_bytes}}), Catch::Contains("found neither"));
}

TEST_CASE("archives: files of AppleDouble and hidden ones are passed over as in folders") {
  const ShardIndex index = index_of({{"./a/x.jpg", picture_bytes},
                                     {"./a/._x.jpg", "no picture"},
                                     {"__MACOSX/a/._x.jpg", "no picture"},
                                     {"__MACOSX/b/y.jpg", "no picture"},
                                     {".git/c/z.jpg", "no picture"},
                                     {"./b/x.JPG", picture_bytes}});
  CHECK(index.class_names == std::vector<std::string>{"a", "b"});
  CHECK(index.labels == std::vector<std::int64_t>{0, 1});
  CHECK(index_of({{"._0.png", "x"}, {"0.png", picture_bytes}, {"._0.cls", "x"}, {"0.cls", "2"}}).size() == 1);
  CHECK_THAT(refused_archive({{"._0.png", "x"}}), Catch::Contains("members: expected pictures"));
}

TEST_CASE("archives: a folder's name, as its class, is a line of text, and each picture comes once") {
  CHECK_THAT(refused_archive({{"a\nb/1.jpg", picture_bytes}}), Catch::Contains("without control characters"));
  CHECK_THAT(refused_archive({{"a/1.jpg", picture_bytes}, {"a/1.jpg", picture_bytes}}),
             Catch::Contains("member a/1.jpg: expected each name once, found it twice"));
}
