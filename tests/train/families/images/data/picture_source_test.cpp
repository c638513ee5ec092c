#include "train/families/images/data/picture_source.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/images/data/tar_bytes.h"
#include "tests/train/pictures/golden.h"
#include "train/families/images/data/made_pictures.h"
#include "train/families/images/data/shard_index.h"

using namespace moh;
using namespace moh::test;
namespace fs = std::filesystem;

namespace {

std::string sample_path(const std::string& name) {
  return read_file(pictures_folder() / "data" / name);
}

Picture picture_at(const PictureSource& source, std::int64_t index) {
  std::vector<std::byte> bytes;
  source.load(index, bytes);
  return source.decode(index, bytes, [](PictureSize size) { return whole(size); });
}

bool is_sample(const PictureSource& source, std::int64_t index, const std::string& name) {
  return same_pixels(picture_at(source, index), decode_picture(sample_bytes(name), name));
}

std::string refused_paths(const std::vector<std::string>& paths,
                          const std::vector<std::string>& classes = {}) {
  return message_of<DataError>([&] { open_pictures(paths, classes); });
}

const std::vector<std::pair<std::string, std::string>>& web_members() {
  static const std::vector<std::pair<std::string, std::string>> members = {
      {"0001.cls", "2\n"}, {"0001.jpg", sample_path("gray.jpg")},
      {"0001.json", "{}"}, {"0002.jpg", sample_path("ycc444.jpg")},
      {"0002.cls", "0"},   {"d/0001.png", sample_path("rgb8.png")},
      {"d/0001.cls", "1"}};
  return members;
}

}  // namespace

TEST_CASE("picture folder: classes and files come in the order of their names") {
  const TemporaryFolder folder;
  write_file(folder / "b/x/2.JPEG", sample_path("png_named.JPEG"));
  write_file(folder / "b/1.png", sample_path("rgb8.png"));
  write_file(folder / "a/9.jpg", sample_path("gray.jpg"));
  write_file(folder / "a/notes.txt", "no picture");
  write_file(folder / "a/.hidden.jpg", "no picture");
  write_file(folder / "readme.txt", "beside the classes");
  const PictureSourcePtr source = open_pictures({folder.path().string()});
  REQUIRE(source->size() == 3);
  CHECK(source->class_names() == std::vector<std::string>{"a", "b"});
  CHECK(source->label(0) == 0);
  CHECK(source->label(1) == 1);
  CHECK(source->label(2) == 1);
  CHECK(is_sample(*source, 0, "gray.jpg"));
  CHECK(is_sample(*source, 1, "rgb8.png"));
  CHECK(is_sample(*source, 2, "png_named.JPEG"));
  CHECK_THAT(source->name(2), Catch::EndsWith("b/x/2.JPEG"));
  const std::string contents = source->describe_contents();
  CHECK_THAT(contents, Catch::StartsWith("3 pictures, 2 classes, checksum of names "));
  CHECK(open_pictures({folder.path().string()})->describe_contents() == contents);
  write_file(folder / "b/3.png", sample_path("rgb8.png"));
  CHECK(open_pictures({folder.path().string()})->describe_contents() != contents);
}

TEST_CASE("picture folder: held-out classes have the labels of the training data") {
  const TemporaryFolder folder;
  write_file(folder / "dog/1.jpg", sample_path("gray.jpg"));
  const PictureSourcePtr source = open_pictures({folder.path().string()}, {"cat", "dog", "emu"});
  CHECK(source->label(0) == 1);
  CHECK(source->class_names().size() == 3);
  CHECK_THAT(refused_paths({folder.path().string()}, {"cat", "emu"}),
             Catch::Contains("dog: class: expected one of the 2 of the training data, found dog"));
}

TEST_CASE("picture folder: what is none is refused") {
  const TemporaryFolder folder;
  CHECK_THAT(refused_paths({folder.path().string()}), Catch::Contains("expected a folder for each class"));
  fs::create_directories(folder / "empty");
  write_file(folder / "full/1.jpg", "");
  CHECK_THAT(refused_paths({folder.path().string()}),
             Catch::Contains("empty: pictures of a class: expected at least one"));
  CHECK_THAT(refused_paths({(folder / "missing").string()}), Catch::Contains("missing"));
  CHECK_THAT(refused_paths({}), Catch::Contains("found no path"));
  CHECK_THAT(refused_paths({folder.path().string(), "a.bin"}), Catch::Contains("found several of them"));
}

TEST_CASE("picture shards: members with labels are pictures, and an index is written once") {
  const TemporaryFolder folder;
  const std::string first = write_file(folder / "train-0.tar", tar_of(web_members()));
  write_file(folder / "train-1.tar", tar_of({{"9.jpeg", sample_path("ycc420.jpg")}, {"9.cls", "3"}}));
  const PictureSourcePtr source = open_pictures({folder.path().string()});
  REQUIRE(source->size() == 4);
  CHECK(source->class_names() == std::vector<std::string>{"0", "1", "2", "3"});
  const std::int64_t labels[] = {2, 0, 1, 3};
  const char* names[] = {"gray.jpg", "ycc444.jpg", "rgb8.png", "ycc420.jpg"};
  for (std::int64_t i = 0; i < 4; ++i) {
    CHECK(source->label(i) == labels[i]);
    CHECK(is_sample(*source, i, names[i]));
  }
  CHECK_THAT(source->name(3), Catch::Contains("train-1.tar, picture 0 at byte 512, 9.jpeg"));

  // The second opening reads the index: one that says otherwise is believed.
  const fs::path index = shard_index_path(first);
  REQUIRE(fs::exists(index));
  const auto written = fs::last_write_time(index);
  const std::string contents = source->describe_contents();
  CHECK(open_pictures({folder.path().string()})->describe_contents() == contents);
  CHECK(fs::last_write_time(index) == written);
  // Damaged, or of another archive: made again.
  write_file(index, "no index");
  CHECK(open_pictures({folder.path().string()})->describe_contents() == contents);
  CHECK(read_file(index) != "no index");
  write_file(first, tar_of({{"1.jpg", sample_path("gray.jpg")}, {"1.cls", "0"}}));
  CHECK(open_pictures({folder.path().string()})->size() == 2);
}

TEST_CASE("picture shards: folders in an archive are classes") {
  const TemporaryFolder folder;
  const std::string path =
      write_file(folder / "a.tar", tar_of({{"train/cat/1.jpg", sample_path("gray.jpg")},
                                           {"train/ant/b.c.jpg", sample_path("ycc444.jpg")}}));
  const PictureSourcePtr source = open_pictures({path});
  CHECK(source->class_names() == std::vector<std::string>{"ant", "cat"});
  CHECK(source->label(0) == 1);
  CHECK(source->label(1) == 0);
  CHECK(open_pictures({path}, {"ant", "bee", "cat"})->label(0) == 2);
  CHECK_THAT(refused_paths({path}, {"ant"}), Catch::Contains("found cat"));
}

TEST_CASE("picture shards: archives without labels or pictures are refused") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::vector<std::pair<std::string, std::string>>& members) {
    return refused_paths({write_file(folder / "a.tar", tar_of(members))});
  };
  const std::string jpeg = sample_path("gray.jpg");
  CHECK_THAT(refused({{"a.txt", "x"}}), Catch::Contains("expected pictures"));
  CHECK_THAT(refused({{"a.jpg", jpeg}}), Catch::Contains("found neither"));
  CHECK_THAT(refused({{"a.jpg", jpeg}, {"b.jpg", jpeg}, {"b.cls", "1"}}),
             Catch::Contains("picture a: expected a label beside it"));
  CHECK_THAT(refused({{"a.jpg", jpeg}, {"a.cls", "cat"}}),
             Catch::Contains("expected the number of a class, found cat"));
  CHECK_THAT(refused({{"a.jpg", jpeg}, {"a.cls", "-1"}}), Catch::Contains("found -1"));
  write_file(folder / "a.tar", tar_of(web_members()));
  const std::string other = write_file(folder / "b.tar", tar_of({{"cat/1.jpg", jpeg}}));
  CHECK_THAT(refused_paths({(folder / "a.tar").string(), other}), Catch::Contains("found the other form"));
  CHECK_THAT(refused_paths({(folder / "a.tar").string()}, {"0", "1"}), Catch::Contains("found 2"));
}

TEST_CASE("picture shards: an index that points outside of its archive is refused") {
  const TemporaryFolder folder;
  const fs::path archive = write_file(folder / "a.tar", tar_of(web_members()));
  open_shard_index(archive);
  const std::string stamp = std::string(std::to_string(fs::file_size(archive)) + " bytes, changed at ");
  const std::string message =
      message_of<DataError>([&] { read_shard_index(shard_index_path(archive), 600, "another state"); });
  CHECK_THAT(message, Catch::Contains("archive: expected another state, found " + stamp));
}

TEST_CASE("CIFAR-10: records of the binary version are pictures") {
  const TemporaryFolder folder;
  std::string record(3073, '\0');
  record[0] = 7;
  for (int i = 0; i < 3072; ++i)
    record[static_cast<std::size_t>(i) + 1] = static_cast<char>(i / 1024 * 50 + i % 32);
  const std::string path = write_file(folder / "data_batch_1.bin", record + record);
  const PictureSourcePtr source = open_pictures({path});
  REQUIRE(source->size() == 2);
  CHECK(source->label(1) == 7);
  CHECK(source->class_names()[7] == "7");
  const Picture picture = picture_at(*source, 1);
  CHECK(picture.size() == PictureSize{32, 32});
  CHECK(picture.row(3)[3 * 5] == 5);
  CHECK(picture.row(3)[3 * 5 + 1] == 55);
  CHECK(picture.row(3)[3 * 5 + 2] == 105);
  write_file(folder / "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nhorse\ni\nj\n\n");
  CHECK(open_pictures({path})->class_names()[7] == "horse");
  record[0] = 10;
  CHECK_THAT(refused_paths({write_file(folder / "b.bin", record)}),
             Catch::Contains("record 0: expected a label of 0 ... 9, found 10"));
  CHECK_THAT(refused_paths({write_file(folder / "c.bin", "short")}), Catch::Contains("found 5 bytes"));
}

TEST_CASE("drawn pictures: a function of seed and number, of every class, and parts are those of the whole") {
  const PictureSourcePtr source = shape_pictures(64, 32, 3), again = shape_pictures(100, 32, 3);
  const PictureSourcePtr other = shape_pictures(64, 32, 4);
  std::map<std::int64_t, int> classes;
  std::set<std::string> different;
  for (std::int64_t i = 0; i < source->size(); ++i) {
    ++classes[source->label(i)];
    const Picture picture = picture_at(*source, i);
    different.insert(sha256_of(picture));
    CHECK(same_pixels(picture, picture_at(*again, i)));
    CHECK_FALSE(same_pixels(picture, picture_at(*other, i)));
    const PictureBox box{5, 9, 20, 11};
    CHECK(same_pixels(source->decode(i, {}, [&](PictureSize) { return box; }), part_of(picture, box)));
  }
  CHECK(classes.size() == 8);
  CHECK(std::ranges::all_of(classes, [](const auto& each) { return each.second == 8; }));
  CHECK(different.size() == 64);
  CHECK_THROWS_AS(shape_pictures(0, 32, 1), ValueError);
}
