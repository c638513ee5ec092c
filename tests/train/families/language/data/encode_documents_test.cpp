#include "train/families/language/data/encode_documents.h"

#include <zlib.h>
#include <zstd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tokenizers/golden.h"
#include "train/base/formats/byte_stream.h"
#include "train/families/language/data/corpus.h"
#include "train/tokenizers/tokenizer_json.h"

using namespace moh;
using Catch::Contains;

namespace {

std::string gzip(const std::string& text) {
  z_stream state{};
  REQUIRE(deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&state, text.size()) + 64, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&state, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - state.avail_out);
  deflateEnd(&state);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::unique_ptr<const Tokenizer> gpt2_tokenizer() {
  return read_tokenizer_json(std::filesystem::path(MOH_SOURCE_DIR) / "tests/train/tokenizers/data/gpt2.json");
}

std::string contents(const std::string& path) {
  const auto stream = open_byte_stream(path);
  std::string text(1000, '\0'), all;
  while (const std::size_t count = stream->read(text)) all += text.substr(0, count);
  return all;
}

/// Documents, each its ids.
std::vector<std::vector<TokenId>> documents_of(const std::string& path, const Tokenizer& tokenizer,
                                               const std::string& key = "text") {
  std::vector<std::vector<TokenId>> documents;
  SkippedFiles skipped;
  std::uint64_t bytes = 0;
  const auto add = [&](const EncodedPart& part) {
    if (part.begins) documents.emplace_back();
    documents.back().insert(documents.back().end(), part.ids.begin(), part.ids.end());
  };
  const bool is_text = encode_documents({path, true}, tokenizer, {.text_key = key}, skipped, add,
                                        [&](std::uint64_t count) { bytes += count; });
  CHECK(is_text);
  CHECK(bytes == std::filesystem::file_size(path));
  return documents;
}

}  // namespace

TEST_CASE("byte_stream: compressed files give what was compressed") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 60000; ++i) text += std::to_string(i) + (i % 7 == 0 ? "\n" : " ");
  CHECK(contents(write_file(folder / "a.txt", text)) == text);
  CHECK(contents(write_file(folder / "a.gz", gzip(text))) == text);
  CHECK(contents(write_file(folder / "members.gz", gzip("one ") + gzip("two"))) == "one two");
  CHECK(contents(write_file(folder / "a.zst", zstd(text))) == text);
  CHECK(contents(write_file(folder / "frames.zst", zstd("one ") + zstd("two"))) == "one two");
  CHECK(contents(write_file(folder / "empty", "")).empty());
}

TEST_CASE("byte_stream: what the programs gzip and zstd pass over behind and between members") {
  const TemporaryFolder folder;
  const std::string zeros(512, '\0'), many(300000, '\0');
  CHECK(contents(write_file(folder / "a.gz", gzip("one") + zeros)) == "one");
  CHECK(contents(write_file(folder / "a.gz", gzip("one") + many)) == "one");
  CHECK(contents(write_file(folder / "a.gz", gzip("one ") + zeros + gzip("two") + zeros)) == "one two");
  CHECK(contents(write_file(folder / "a.gz", gzip("") + gzip("one"))) == "one");
  CHECK_THROWS_WITH(contents(write_file(folder / "a.gz", gzip("one") + zeros + "x")),
                    Contains("nothing but zeros or another member behind a gzip file"));
  CHECK_THROWS_WITH(contents(write_file(folder / "a.gz", gzip("one") + gzip("two").substr(0, 9))),
                    Contains("that ends early"));
  const std::string skipped = std::string("\x5a\x2a\x4d\x18\x05\0\0\0", 8) + "12345";
  CHECK(contents(write_file(folder / "a.zst", skipped + zstd("one ") + skipped + zstd("two") + skipped)) ==
        "one two");
  CHECK(is_compressed(write_file(folder / "a.zst", skipped + zstd("one"))));
  // Zeros are an error of zstd.
  CHECK_THROWS_WITH(contents(write_file(folder / "a.zst", zstd("one") + zeros)), Contains("a.zst: expected"));
}

TEST_CASE("byte_stream: damaged files are refused by name") {
  const TemporaryFolder folder;
  const std::string text(100000, 'x');
  for (const auto& [name, whole] :
       {std::pair<std::string, std::string>("a.gz", gzip(text)), {"a.zst", zstd(text)}}) {
    const std::string path = (folder / name).string();
    write_file(path, whole.substr(0, whole.size() - 3));
    CHECK_THROWS_WITH(contents(path),
                      Contains(path) && Contains("that ends early") && Contains("the file is damaged"));
  }
}

TEST_CASE("byte_stream: a byte that changed is found by gzip's checksum") {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 9000; ++i) text += std::to_string(i * 7919 % 10007);
  std::string damaged = gzip(text);
  damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 0x55);
  const std::string path = write_file(folder / "a.gz", damaged);
  CHECK_THROWS_AS(contents(path), DataError);
}

TEST_CASE("encode_documents: a long text has the ids of the whole, with any number of threads") {
  const TemporaryFolder folder;
  const auto tokenizer = gpt2_tokenizer();
  std::string text = "First, ";
  for (int i = 0; i < 90000; ++i)
    text += "word" + std::to_string(i * 7919 % 1000) + (i % 11 == 0 ? ".\n" : " ");
  const std::vector<std::vector<TokenId>> expected = {test::ids_of(*tokenizer, text)};
  for (const int threads : {1, 2}) {
    set_num_threads(threads);
    CHECK(documents_of(write_file(folder / "a.txt", text), *tokenizer) == expected);
    CHECK(documents_of(write_file(folder / "a.txt.zst", zstd(text)), *tokenizer) == expected);
  }
  set_num_threads(0);
}

TEST_CASE("encode_documents: a line of JSON Lines is a document") {
  const TemporaryFolder folder;
  const auto tokenizer = gpt2_tokenizer();
  const std::string lines =
      "{\"text\": \"the first\\nZ\\u00fcrich\", \"n\": 1}\n\n{\"n\": 2, \"text\": "
      "\"\"}\r\n{\"text\":\"last\"}";
  const std::vector<std::vector<TokenId>> expected = {
      test::ids_of(*tokenizer, "the first\nZürich"), {}, test::ids_of(*tokenizer, "last")};
  CHECK(documents_of(write_file(folder / "a.jsonl", lines), *tokenizer) == expected);
  CHECK(documents_of(write_file(folder / "a.jsonl.gz", gzip(lines)), *tokenizer) == expected);
  CHECK(documents_of(write_file(folder / "b.jsonl", "{\"body\": \"last\"}\n"), *tokenizer, "body") ==
        std::vector<std::vector<TokenId>>{expected[2]});
}

TEST_CASE("encode_documents: what is wrong with a line is said with its number") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& line) {
    return [&, path = write_file(folder / "a.jsonl", "{\"text\": \"a\"}\n" + line + "\n")] {
      documents_of(path, ByteTokenizer());
    };
  };
  CHECK_THROWS_WITH(refused("[1]")(), Contains("a.jsonl:2: expected a JSON object, found [1]"));
  CHECK_THROWS_WITH(refused("{")(), Contains("a.jsonl:2: expected a JSON object"));
  CHECK_THROWS_WITH(refused("{\"txt\": 1}")(),
                    Contains("a.jsonl:2: expected a text at the key 'text', found no such key"));
  CHECK_THROWS_WITH(refused("{\"text\": 1}")(), Contains("expected a text at the key 'text', found 1"));
  CHECK_THROWS_WITH(refused(std::string(100, '[') + std::string(100, ']'))(),
                    Contains("at most 64 levels of nesting"));
  CHECK_THROWS_WITH(
      refused("{\"text\": \"a\", \"b\": NaN}")(),
      Contains("a.jsonl:2: expected a JSON object, found column 20: NaN at the key b; JSON has no such"));
}

TEST_CASE("encode_documents: text that a tokenizer cannot express is said with its file and line") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& text) {
    return message_of<DataError>([&] { documents_of(write_file(folder / name, text), ByteTokenizer()); });
  };
  const std::string nul = "{\"text\": \"a\\u0000b\"}\n";
  CHECK_THAT(refused("a.jsonl", "{\"text\": \"a\"}\n\n" + nul),
             Contains("a.jsonl:3: byte tokenizer: text: expected no NUL"));
  CHECK_THAT(refused("b.jsonl.gz", gzip("{\"text\": \"a\"}\n" + nul)),
             Contains("b.jsonl.gz:2: byte tokenizer"));
  CHECK_THAT(refused("c.jsonl.zst", zstd(nul)), Contains("c.jsonl.zst:1: byte tokenizer"));
}

TEST_CASE(
    "encode_documents: other records in a folder are passed over, by the user's name they are refused") {
  TemporaryFolder folder;
  const auto tokenizer = gpt2_tokenizer();
  const std::string metrics = write_file(folder / "metrics.jsonl", "{\"kind\": \"train\", \"loss\": 1.5}\n");
  const auto ids_of = [&](bool named, SkippedFiles& skipped) {
    std::int64_t ids = 0;
    encode_documents(
        {metrics, named}, *tokenizer, {}, skipped,
        [&](const EncodedPart& part) { ids += std::ssize(part.ids); }, [](std::uint64_t) {});
    return ids;
  };
  SkippedFiles skipped;
  CHECK(ids_of(false, skipped) == 0);
  CHECK_FALSE(kind_of_text({metrics, false}, *tokenizer, {}, skipped).has_value());
  CHECK(skipped.describe() == "2 JSON Lines without text (first: " + metrics + ")");
  CHECK_THROWS_AS(ids_of(true, skipped), DataError);
}

TEST_CASE("data: a large text becomes a token file in the cache, once") {
  const TemporaryFolder folder;
  const auto tokenizer = gpt2_tokenizer();
  std::string text;
  while (text.size() <= kTextInMemory)
    text += "The heads of a token are routed, " + std::to_string(text.size()) + "\n";
  const std::vector<std::string> inputs = {write_file(folder / "large.txt", text)};
  const TextOptions options{.cache = folder / "cache"};
  const Corpus first = open_corpus(inputs, *tokenizer, {}, options);
  const auto made = [&] {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "cache"))
      files.push_back(entry.path());
    return files;
  };
  REQUIRE(made().size() == 1);
  const auto time = std::filesystem::last_write_time(made().front());
  CHECK(open_corpus(inputs, *tokenizer, {}, options).describe_contents() == first.describe_contents());
  CHECK(std::filesystem::last_write_time(made().front()) == time);
  std::vector<TokenId> ids(static_cast<std::size_t>(first.num_tokens()));
  first.files.front().tokens->copy(0, ids);
  CHECK(ids == test::ids_of(*tokenizer, text));
  text[0] = 't';
  write_file(folder / "large.txt", text);
  open_corpus(inputs, *tokenizer, {}, options);
  CHECK(made().size() == 2);
}
