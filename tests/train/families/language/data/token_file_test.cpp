#include "train/families/language/data/token_file.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/safetensors_text.h"
#include "tests/train/families/language/data/byte_tokenizer.h"
#include "train/base/io/failpoint.h"
#include "train/families/language/data/token_file_writer.h"
#include "train/tokenizers/tokenizer.h"

using namespace moh;
using moh::test::byte_tokenizer;
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
  for (const std::vector<TokenId>& document : documents) {
    writer.begin_document();
    writer.add(document);
  }
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

/// The header of another program: the least that a token file has.
std::string header_of(const std::string& metadata, const std::string& tensors) {
  return R"({"__metadata__":{)" + metadata + "}," + tensors + "}";
}
const std::string metadata_json =
    R"("format":"moh-tokens","version":"1","tokenizer":"byte","vocab_size":"256")";
const std::string four_ids = R"("tokens":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";

}  // namespace

TEST_CASE("data: a token file gives back the ids of every document, in the smallest type that has them") {
  const TemporaryFolder folder;
  std::vector<TokenId> large(20000);
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<TokenId>((i * 7919) % 70000);
  for (std::int64_t vocab_size : {256, 257, 65536, 65537, 128256}) {
    std::vector<TokenId> ids = large;
    for (TokenId& id : ids) id %= static_cast<TokenId>(vocab_size);
    const TokenFileInfo info = write_tokens(folder / "t.bin", FakeTokenizer(vocab_size), {ids, {1, 2}});
    CHECK(info.stored_dtype == (vocab_size <= 256 ? "U8" : vocab_size <= 65536 ? "U16" : "I32"));
    CHECK(info.num_tokens == 20002);
    CHECK(info.num_documents == 2);
    CHECK(info.text_bytes == 40004);
    ids.insert(ids.end(), {1, 2});
    const auto file = TokenFile::open((folder / "t.bin").string());
    CHECK(describe(file->info()) == describe(info));
    CHECK(read_tokens(*file, 0, 20002) == ids);
    CHECK(read_tokens(*file, 9999, 3) == std::vector<TokenId>(ids.begin() + 9999, ids.begin() + 10002));
    CHECK(read_tokens(*file, 20002, 0).empty());
    CHECK_THROWS_AS(read_tokens(*file, 20000, 3), InternalError);
  }
}

TEST_CASE("data: a token file is a safetensors file with what is documented") {
  const TemporaryFolder folder;
  write_tokens(folder / "t", byte_tokenizer, {{'a', 'b'}, {'c'}});
  const SafetensorsFile file(folder / "t");
  REQUIRE(file.tensors().size() == 1);
  CHECK(file.tensors()[0].name == "tokens");
  CHECK(file.tensors()[0].stored_dtype == "U8");
  std::string ids(4, '?');
  file.read(file.tensors()[0], 0, std::as_writable_bytes(std::span(ids)));
  CHECK(ids == std::string("ab\0c", 4));
  WeightFile::Metadata metadata = file.metadata();
  Checksum checksum;
  std::string text = ids;
  for (const auto& [key, value] : metadata) {
    if (key != "checksum") text.append(key).append(1, '\0').append(value).append(1, '\0');
  }
  CHECK(metadata["checksum"] == checksum_hex(text));
  metadata.erase("checksum");
  CHECK(metadata == WeightFile::Metadata{{"documents", "2"},
                                         {"format", "moh-tokens"},
                                         {"text_bytes", "3"},
                                         {"tokenizer", "byte"},
                                         {"tokenizer_hash", hash_text(byte_tokenizer.content_hash())},
                                         {"version", "1"},
                                         {"vocab_size", "256"}});
}

TEST_CASE("data: token files of other programs are read, in every type") {
  const TemporaryFolder folder;
  const std::vector<TokenId> ids = {3, 0, 255, 7};
  const auto check = [&]<class Stored>(const std::string& dtype) {
    INFO(dtype);
    const std::vector<Stored> stored(ids.begin(), ids.end());
    const std::string bytes(reinterpret_cast<const char*>(stored.data()), stored.size() * sizeof(Stored));
    const std::string tensor = R"("tokens":{"dtype":")" + dtype + R"(","shape":[4],"data_offsets":[0,)" +
                               std::to_string(bytes.size()) + "]}";
    const auto file = TokenFile::open(write_file(
        folder / "t", safetensors_bytes(header_of(metadata_json + R"(,"mine":"x")", tensor), bytes)));
    CHECK(read_tokens(*file, 0, 4) == ids);
    file->require_tokenizer(byte_tokenizer);
    CHECK_THAT(describe(file->info()), Catch::Contains("documents   not known\n") &&
                                           Catch::Contains("tokenizer   byte (no hash)\n") &&
                                           Catch::Contains("checksum    none\n"));
  };
  check.operator()<std::uint8_t>("U8");
  check.operator()<std::uint16_t>("U16");
  check.operator()<std::uint32_t>("U32");
  check.operator()<std::int16_t>("I16");
  check.operator()<std::int32_t>("I32");
  check.operator()<std::int64_t>("I64");
}

TEST_CASE("data: what is no token file is refused with what is wrong") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& contents) {
    return refusal(write_file(folder / "t.bin", contents));
  };
  const auto made = [&](const std::string& metadata, const std::string& tensors) {
    return refused(safetensors_bytes(header_of(metadata, tensors), "abcd"));
  };
  const auto with = [](std::string text, const std::string& from, const std::string& to) {
    return text.replace(text.find(from), from.size(), to);
  };
  REQUIRE(made(metadata_json, four_ids).empty());
  for (const char* text : {"", "To be, or not to be"})
    CHECK(refused(text) ==
          "expected a moh token file, found other contents; make one of text with 'moh data tokenize', of "
          "token ids of another program with scripts/import_tokens.py");
  const std::string see = "; docs/token_files.md says what a token file has";
  CHECK(made(R"("a":"b")", four_ids) == "metadata, format: expected moh-tokens, found no such entry" + see);
  CHECK(made(with(metadata_json, "moh-tokens", "pt"), four_ids) ==
        "metadata, format: expected moh-tokens, found pt" + see);
  CHECK(made(with(metadata_json, R"("1")", R"("3")"), four_ids) ==
        "metadata, version: expected 1 or 2, found 3" + see);
  CHECK(made(with(metadata_json, "tokenizer", "name"), four_ids) ==
        "metadata, tokenizer: expected its name, found no such entry" + see);
  CHECK(made(with(metadata_json, "vocab_size", "size"), four_ids) ==
        "metadata, vocab_size: expected the number of ids of the tokenizer, found no such entry" + see);
  for (const char* number : {"0", "-1", "2147483648", "99999999999999999999", "0x10", "256 ", "many"}) {
    CHECK(made(with(metadata_json, "256", number), four_ids) ==
          "metadata, vocab_size: expected 1 ... 2147483647, found " + std::string(number) + see);
  }
  CHECK(made(metadata_json + R"(,"documents":"5")", four_ids) ==
        "metadata, documents: expected 1 ... 4, found 5" + see);
  const std::string one =
      "tensors: expected one, tokens: U8, U16, U32, I16, I32 or I64 with one dimension, not empty, found ";
  CHECK(made(metadata_json, with(four_ids, "tokens", "ids")) == one + "1, none of this name");
  CHECK(made(metadata_json, with(four_ids, "U8", "I8")) == one + "I8 [4]");
  CHECK(made(metadata_json, with(four_ids, "[4]", "[2,2]")) == one + "U8 [2, 2]");
  CHECK(made(metadata_json, R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                            R"("tokens":{"dtype":"U8","shape":[2],"data_offsets":[2,4]})") == one + "2");
  CHECK(refused(safetensors_bytes(
            header_of(metadata_json, R"("tokens":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})"))) ==
        one + "U8 [0]");

  const std::string damaged = "the file is damaged: write it again with 'moh data tokenize'";
  CHECK(made(with(metadata_json, "256", "100"), four_ids) ==
        "id 3: expected 0 ... 99, found 100; " + damaged);
  CHECK(refused(safetensors_bytes(
            header_of(metadata_json, R"("tokens":{"dtype":"I32","shape":[1],"data_offsets":[0,4]})"),
            "\xff\xff\xff\xff")) == "id 0: expected 0 ... 255, found -1; " + damaged);
  CHECK(made(metadata_json + R"(,"checksum":"00")", four_ids).find("expected checksum 00, found ") == 0);
}

TEST_CASE("data: a token file of another program can have prompts, in version 2") {
  const TemporaryFolder folder;
  const auto made = [&](const std::string& metadata, const std::string& dtype, const std::string& ids) {
    const std::string tensor = R"("tokens":{"dtype":")" + dtype + R"(","shape":[2],"data_offsets":[0,)" +
                               std::to_string(ids.size()) + "]}";
    return write_file(folder / "t", safetensors_bytes(header_of(metadata, tensor), ids));
  };
  const std::string prompts =
      R"("format":"moh-tokens","version":"2","tokenizer":"byte","vocab_size":"256","prompt_tokens":"1")";
  std::vector<TokenId> ids(2);
  TokenFile::open(made(prompts, "I16", std::string("\x9e\xff\x62\0", 4)))->copy_marked(0, ids);
  CHECK(ids == std::vector<TokenId>{marked('a'), 'b'});
  const auto refused = [&](const std::string& path, const std::string& said) {
    CHECK_THAT(refusal(path), Catch::StartsWith(said));
  };
  const std::string none = prompts.substr(0, prompts.find(R"(,"prompt_tokens)"));
  refused(made(none, "I16", "abcd"),
          "metadata, prompt_tokens: expected the number of tokens of prompts, found no such entry");
  refused(made(prompts, "U16", "abcd"),
          "tensors: expected one, tokens: I16, I32 or I64 with one dimension, not empty, found U16");
  // The complement of 256, and of ids far beyond.
  refused(made(prompts, "I16", std::string("\xff\xfe\xff\xfe", 4)), "id 0: expected 0 ... 255, found -257");
  refused(made(prompts, "I64", std::string(15, '\0') + "\x80"),
          "id 1: expected 0 ... 255, found -9223372036854775808");
}

TEST_CASE("data: any flipped bit of a token file is found, and any missing end") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  write_tokens(path, byte_tokenizer, {{'a', 'b', 'c', 'd'}});
  const std::string good = read_file(path);
  const std::string_view name = "checksum";  // without it there is none, and nothing else has changed
  const std::size_t unseen = good.find(name);
  std::fstream file(path,
                    std::ios::in | std::ios::out | std::ios::binary);  // ext4 syncs what is written anew
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    const std::size_t at = bit / 8;
    if (at >= unseen && at < unseen + name.size()) continue;
    const auto write = [&](int byte) {
      file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte)).flush();
    };
    write(good[at] ^ (1 << (bit % 8)));
    INFO("bit " << bit);
    CHECK_FALSE(refusal(path).empty());
    write(good[at]);
  }
  CHECK(refusal(path).empty());
  for (std::size_t size = good.size(); size-- > 0;) {
    fs::resize_file(path, size);
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
    damage.seekp(1024 + 2 * 100);
    damage.write("\xFF\xFF", 2);
  }
  CHECK(read_tokens(*file, 101, 50) == std::vector<TokenId>(50, 7));
  CHECK_THROWS_WITH(read_tokens(*file, 90, 50),
                    Catch::StartsWith(path.string() + ": id 100: expected 0 ... 499, found 65535"));
  CHECK_THROWS_AS(file->verify(), DataError);
  fs::resize_file(path, 1024 + 2 * 1000);
  CHECK_THROWS_AS(read_tokens(*file, 990, 50), DataError);
  CHECK_THROWS_WITH(read_tokens(*file, 990, 50), Catch::StartsWith(path.string() + ": tokens: "));
}

TEST_CASE("data: a token file of another tokenizer is refused") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin", FakeTokenizer(256, 1), {{1, 2, 3}});
  const auto file = TokenFile::open((folder / "t.bin").string());
  CHECK_NOTHROW(file->require_tokenizer(FakeTokenizer(256, 1)));
  CHECK_THROWS_AS(file->require_tokenizer(FakeTokenizer(256, 2)), DataError);
  CHECK_THROWS_AS(file->require_tokenizer(FakeTokenizer(257, 1)), DataError);
  CHECK_THROWS_WITH(file->require_tokenizer(byte_tokenizer),
                    Catch::Contains("t.bin: tokenizer: expected 'byte' (") &&
                        Catch::Contains("found 'fake' (0000000000000001, 256 ids)"));
}

TEST_CASE("data: an unfinished token file never appears, and leaves what was there") {
  const TemporaryFolder folder;
  const fs::path path = folder / "t.bin";
  write_file(path, "before");
  {
    TokenFileWriter writer(path, byte_tokenizer);
    writer.add(std::vector<TokenId>{1, 2, 3});
  }
  CHECK(read_file(path) == "before");
  CHECK_THROWS_AS(TokenFileWriter(path, byte_tokenizer).finish(), DataError);
  TokenFileWriter strict(path, byte_tokenizer);
  CHECK_THROWS_AS(strict.add(std::vector<TokenId>{256}), ValueError);
  CHECK_THROWS_AS(TokenFileWriter(folder / "absent/t.bin", byte_tokenizer), StorageError);
}

TEST_CASE("data: finished writers leave nothing but the file") {
  const TemporaryFolder folder;
  write_tokens(folder / "t.bin", byte_tokenizer, {{1, 2, 3}});
  const fs::directory_iterator files(folder.path());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("data: writing a token file larger than the buffer") {
  const TemporaryFolder folder;
  const std::vector<TokenId> ids((std::size_t{1} << 20) + 17, 'x');
  CHECK(write_tokens(folder / "t.bin", byte_tokenizer, {ids, ids}).num_tokens == 2 * ((1 << 20) + 17) + 1);
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
    CHECK_THROWS_AS(write_tokens(path, byte_tokenizer, {{1, 2, 3}}), StorageError);
    failpoint::arm("");
    CHECK(read_file(path) == "before");
    CHECK(std::distance(begin(fs::directory_iterator(folder.path())), fs::directory_iterator()) == 1);
  }
}
#endif
