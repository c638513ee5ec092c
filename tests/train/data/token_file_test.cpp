#include "train/data/token_file.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/data/byte_tokenizer.h"
#include "train/data/token_file_writer.h"
#include "train/io/failpoint.h"

using namespace moh;
namespace fs = std::filesystem;

namespace {

/// A tokenizer whose vocabulary the test chooses.
class FakeTokenizer final : public Tokenizer {
 public:
  explicit FakeTokenizer(std::int64_t vocab_size, std::uint64_t hash = 77)
      : vocab_size_(vocab_size), hash_(hash) {}
  std::string_view name() const override { return "fake"; }
  std::int64_t vocab_size() const override { return vocab_size_; }
  std::uint64_t content_hash() const override { return hash_; }
  std::optional<TokenId> end_of_document() const override { return std::nullopt; }
  void encode(std::string_view, std::vector<TokenId>&) const override {}
  std::string_view token_bytes(TokenId) const override { return "xy"; }

 private:
  std::int64_t vocab_size_;
  std::uint64_t hash_;
};

using Documents = std::vector<std::vector<TokenId>>;

TokenFileInfo write_tokens(const fs::path& path, const Tokenizer& tokenizer, const Documents& documents) {
  TokenFileWriter writer(path, tokenizer);
  for (const std::vector<TokenId>& document : documents) writer.add_document(document);
  return writer.finish();
}

std::vector<TokenId> read_tokens(const TokenFile& file, std::int64_t begin, std::int64_t count) {
  std::vector<TokenId> ids(static_cast<std::size_t>(count));
  file.copy(begin, ids);
  return ids;
}

/// The message with which opening the file is refused; "" when it is not.
std::string refusal(const fs::path& path) {
  try {
    TokenFile::open(path.string());
  } catch (const DataError& error) {
    CHECK(std::string(error.what()).find(path.string() + ": ") == 0);  // names the file first
    return std::string(error.what()).substr(path.string().size() + 2);
  }
  return "";
}

/// Changes bytes of a header and makes its checksum right again, as a writer with a bug would.
std::string forge_header(std::string contents, const TokenFileInfo& info) {
  const auto header = pack_token_file_header(info);
  std::memcpy(contents.data(), header.data(), header.size());
  return contents;
}

const ByteTokenizer kByte;

}  // namespace

TEST_CASE("data: a token file gives back the ids of every document, in both widths") {
  const TemporaryFolder folder;
  std::vector<TokenId> large(20000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<TokenId>((i * 7919) % 70000);
  for (std::int64_t vocab_size : {65536, 65537, 128256}) {
    std::vector<TokenId> ids = large;
    for (TokenId& id : ids) id %= static_cast<TokenId>(vocab_size);
    const TokenFileInfo info = write_tokens(folder / "t.bin", FakeTokenizer(vocab_size), {ids, {1, 2}});
    CHECK(info.bytes_per_token() == (vocab_size <= 65536 ? 2 : 4));
    CHECK(info.num_tokens == 20002);
    CHECK(info.num_documents == 2);
    CHECK(info.text_bytes == 40004);
    ids.insert(ids.end(), {1, 2});
    const auto file = TokenFile::open((folder / "t.bin").string());
    CHECK(read_tokens(*file, 0, 20002) == ids);
    CHECK(read_tokens(*file, 9999, 3) == std::vector<TokenId>(ids.begin() + 9999, ids.begin() + 10002));
    CHECK(read_tokens(*file, 20002, 0).empty());
    CHECK_THROWS_AS(read_tokens(*file, 20000, 3), InternalError);
  }
}

TEST_CASE("data: the layout of a token file is as documented") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin", kByte, {{'a', 'b'}, {'c'}});
  const std::string bytes = read_file(folder / "t.bin");
  REQUIRE(bytes.size() == 128 + 8);
  CHECK(bytes.substr(0, 8) == "MOHTOKEN");
  CHECK(bytes.substr(8, 8) == std::string("\x01\0\0\0\x02\0\0\0", 8));
  CHECK(bytes.substr(16, 32) == std::string("\0\x01\0\0\0\0\0\0"  // vocabulary 256
                                            "\x04\0\0\0\0\0\0\0"  // ids
                                            "\x02\0\0\0\0\0\0\0"  // documents
                                            "\x03\0\0\0\0\0\0\0",
                                            32));  // bytes of text
  CHECK(bytes.substr(64, 5) == std::string("byte\0", 5));
  CHECK(bytes.substr(128) == std::string("a\0b\0\0\0c\0", 8));
}

TEST_CASE("data: damaged token files are refused with what is wrong and what to do") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  std::vector<TokenId> ids(1000);
  std::iota(ids.begin(), ids.end(), 0);
  const TokenFileInfo info = write_tokens(path, FakeTokenizer(1000), {ids});
  const std::string good = read_file(path);
  REQUIRE(refusal(path).empty());
  const auto refused = [&](const std::string& contents) {
    write_file(path, contents);
    return refusal(path);
  };
  const std::string again = "write it again with 'moh data tokenize'";

  CHECK(refused("") == "expected a moh token file, found other contents; make one with 'moh data tokenize'");
  CHECK(refused("To be, or not to be") ==
        "expected a moh token file, found other contents; make one with 'moh data tokenize'");
  CHECK(refused(good.substr(0, 100)) ==
        "header: expected 128 bytes, found 100; the file is truncated: " + again);
  CHECK(refused(good.substr(0, 2127)) ==
        "size: expected 2128 bytes for 1000 tokens, found 2127; the file is truncated: " + again);
  CHECK(refused(good + "x") ==
        "size: expected 2128 bytes for 1000 tokens, found 2129; the file has bytes too many: " + again);

  std::string other_version = good;
  other_version[8] = 2;
  CHECK(refused(other_version)
            .find("format version: expected 1, found 2; the file comes from another release") == 0);

  TokenFileInfo smaller = info;
  smaller.vocab_size = 500;
  CHECK(refused(forge_header(good, smaller)) ==
        "id 999: expected less than the vocabulary size (500), found 999; the file is damaged: " + again);
  TokenFileInfo wide = info;
  wide.vocab_size = 70000;
  CHECK(refused(forge_header(good, wide)).find("size: expected 4128 bytes") == 0);
  TokenFileInfo huge = info;
  huge.num_tokens = std::int64_t{1} << 62;
  CHECK(refused(forge_header(good, huge)).find("header: expected plausible counts") == 0);
  TokenFileInfo none = info;
  none.num_tokens = 0;
  CHECK(refused(forge_header(good, none)).find("header: expected plausible counts") == 0);
}

TEST_CASE("data: any flipped bit of a token file is found, and any missing end") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  write_tokens(path, kByte, {{'a', 'b', 'c', 'd'}});
  const std::string good = read_file(path);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write_file(path, flipped);
    INFO("bit " << bit);
    CHECK_FALSE(refusal(path).empty());
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_file(path, good.substr(0, size));
    INFO("size " << size);
    CHECK_FALSE(refusal(path).empty());
  }
}

TEST_CASE("data: a token file that shrinks or is damaged while it is read is an error, not a crash") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  write_tokens(path, FakeTokenizer(500), {std::vector<TokenId>(5000, 7)});
  const auto file = TokenFile::open(path.string());
  {
    std::fstream damage(path, std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(128 + 2 * 100);
    damage.write("\xFF\xFF", 2);
  }
  CHECK(read_tokens(*file, 101, 50) == std::vector<TokenId>(50, 7));
  CHECK_THROWS_WITH(read_tokens(*file, 90, 50),
                    Catch::StartsWith(path.string() + ": id 100: expected less than"));
  CHECK_THROWS_AS(file->verify(), DataError);
  fs::resize_file(path, 128 + 2 * 1000);
  CHECK_THROWS_AS(read_tokens(*file, 990, 50), DataError);
  CHECK_THROWS_WITH(read_tokens(*file, 990, 50), Catch::StartsWith(path.string() + ": ids: "));
}

TEST_CASE("data: a token file of another tokenizer is refused") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin", FakeTokenizer(256, 1), {{1, 2, 3}});
  const auto file = TokenFile::open((folder / "t.bin").string());
  CHECK_NOTHROW(file->require_tokenizer(FakeTokenizer(256, 1)));
  CHECK_THROWS_AS(file->require_tokenizer(FakeTokenizer(256, 2)), DataError);
  CHECK_THROWS_AS(file->require_tokenizer(FakeTokenizer(257, 1)), DataError);
  CHECK_THROWS_WITH(file->require_tokenizer(kByte),
                    Catch::Contains("t.bin: tokenizer: expected 'byte' (") &&
                        Catch::Contains("found 'fake' (0000000000000001, 256 ids)"));
}

TEST_CASE("data: an unfinished token file never appears, and leaves what was there") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  write_file(path, "before");
  {
    TokenFileWriter writer(path, kByte);
    writer.add_document(std::vector<TokenId>{1, 2, 3});
  }
  CHECK(read_file(path) == "before");
  CHECK_THROWS_AS(TokenFileWriter(path, kByte).finish(), DataError);
  TokenFileWriter strict(path, kByte);
  CHECK_THROWS_AS(strict.add_document(std::vector<TokenId>{256}), ValueError);
  CHECK_THROWS_AS(TokenFileWriter(folder / "absent/t.bin", kByte), StorageError);
}

TEST_CASE("data: finished writers leave nothing but the file") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin", kByte, {{1, 2, 3}});
  const fs::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("data: writing a token file larger than the buffer") {
  const TemporaryFolder folder;
  const std::vector<TokenId> ids((std::size_t{1} << 20) + 17, 'x');
  CHECK(write_tokens(folder / "t.bin", kByte, {ids, ids}).num_tokens == 2 * ((1 << 20) + 17) + 1);
  CHECK(read_tokens(*TokenFile::open((folder / "t.bin").string()), (1 << 20) + 16, 3) ==
        std::vector<TokenId>{'x', 0, 'x'});
}

#ifdef MOH_FAILPOINTS
TEST_CASE("data: a full disk leaves the old token file and no other") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  for (const char* point :
       {"io:write_1=ENOSPC", "io:write_2=ENOSPC", "io:write_3=ENOSPC", "io:fsync_1=EIO", "io:rename_1=EIO"}) {
    write_file(path, "before");
    failpoint::arm(point);
    INFO(point);
    CHECK_THROWS_AS(write_tokens(path, kByte, {{1, 2, 3}}), StorageError);
    failpoint::arm("");
    CHECK(read_file(path) == "before");
    CHECK(std::distance(begin(fs::directory_iterator(folder.path())), fs::directory_iterator()) == 1);
  }
}
#endif
