#include "train/families/images/data/shard_index.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/images/data/tar_bytes.h"
#include "train/base/formats/safetensors.h"
#include "train/families/images/data/broken_pictures.h"
#include "train/families/images/data/changed_data.h"
#include "train/families/images/data/picture_source.h"

using namespace moh;
using namespace moh::test;
namespace fs = std::filesystem;

namespace {

std::string archive_of(const std::string& labels, const std::string& picture = "picture") {
  std::vector<std::pair<std::string, std::string>> members;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    members.emplace_back(std::to_string(i) + ".png", picture + std::to_string(i));
    members.emplace_back(std::to_string(i) + ".cls", labels.substr(i, 1));
  }
  return tar_of(members);
}

/// Replaces a file by another, which gets its time.
void replace(const fs::path& path, const std::string& contents) {
  const auto time = fs::last_write_time(path);
  write_file(path.string() + ".new", contents);
  fs::last_write_time(path.string() + ".new", time);
  fs::rename(path.string() + ".new", path);
}

}  // namespace

TEST_CASE("shard index: any changed byte of it is found, and it is made again") {
  const TemporaryFolder folder;
  const fs::path archive = write_file(folder / "a.tar", archive_of("0312"));
  const ShardIndex expected = open_shard_index(archive);
  const fs::path path = shard_index_path(archive);
  const std::string sound = read_file(path);
  const SafetensorsFile file(path);
  for (const char* tensor : {"offsets", "sizes", "labels"}) {
    for (std::uint64_t byte = 0; byte < 32; byte += 8) {
      std::string changed = sound;
      changed[file.raw_header().size() + file.find(tensor)->place + byte] ^= 1;  // 0 becomes 1, 3 becomes 2
      write_file(path, changed);
      CHECK_THROWS_AS(read_shard_index(path, fs::file_size(archive), archive_state(archive).text()),
                      DataError);
      const ShardIndex again = open_shard_index(archive);
      CHECK(again.labels == expected.labels);
      CHECK(again.offsets == expected.offsets);
      CHECK(again.sizes == expected.sizes);
      CHECK(read_file(path) == sound);
    }
  }
}

TEST_CASE("shard index: pictures lie within the archive") {
  const TemporaryFolder folder;
  const fs::path archive = write_file(folder / "a.tar", archive_of("0312")), path = shard_index_path(archive);
  const ShardIndex index = open_shard_index(archive);
  const auto read = [&](std::int64_t archive_bytes) {
    read_shard_index(path, static_cast<std::uint64_t>(archive_bytes), archive_state(archive).text());
  };
  const std::int64_t end = index.offsets.back() + index.sizes.back();
  CHECK_NOTHROW(read(end));
  CHECK_THAT(message_of<DataError>([&] { read(end - 1); }),
             Catch::Contains("picture 3: expected bytes of the archive and a class, found 8 bytes at "));
}

TEST_CASE("shard index: of an archive that was replaced by one of the same size and time it is made again") {
  const TemporaryFolder folder;
  const fs::path archive = write_file(folder / "a.tar", archive_of("0312"));
  open_shard_index(archive);
  replace(archive, archive_of("1203"));
  CHECK(open_shard_index(archive).labels == std::vector<std::int64_t>{1, 2, 0, 3});
  // Written in place, and given its old time.
  rewrite_with_its_time(archive, archive_of("3333"));
  CHECK(open_shard_index(archive).labels == std::vector<std::int64_t>{3, 3, 3, 3});
}

TEST_CASE("picture shards: an archive that is replaced or written while it is in use is refused by name") {
  const TemporaryFolder folder;
  const fs::path archive = write_file(folder / "a.tar", archive_of("01"));
  const PictureSourcePtr source = open_pictures({archive.string()});
  std::vector<std::byte> bytes;
  const auto load = [&] { source->load(0, bytes); };
  CHECK_NOTHROW(load());
  fs::permissions(archive, fs::perms::owner_read | fs::perms::owner_write);
  CHECK_NOTHROW(load());
  replace(archive, archive_of("01", "another"));
  CHECK_THAT(message_of<ChangedDataError>(load), Catch::Contains("a.tar: archive: expected the file that was "
                                                                 "opened at the start"));
  // This is no broken picture, which could be skipped.
  BrokenPictures broken;
  CHECK_THROWS_AS(
      first_sound(0, 2, OnError::kSkip, &broken, [&](std::int64_t index) { source->load(index, bytes); }),
      ChangedDataError);
  CHECK(broken.count() == 0);
  fs::resize_file(archive, 600);
  CHECK_THROWS_AS(load(), ChangedDataError);
}
