#include "train/families/language/data/corpus.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/families/language/data/byte_tokenizer.h"
#include "train/base/formats/safetensors.h"
#include "train/families/language/data/tokenize_files.h"
#include "train/tokenizers/tokenizer.h"

using namespace moh;
using moh::test::byte_tokenizer;
namespace fs = std::filesystem;

namespace {

std::vector<TokenId> ids_in(const TokenSource& source) {
  std::vector<TokenId> ids(static_cast<std::size_t>(source.size()));
  source.copy(0, ids);
  return ids;
}

/// The text of a source, documents separated by '|'.
std::string text_in(const TokenSource& source) {
  std::string text;
  for (TokenId id : ids_in(source)) text += id == ByteTokenizer::kEndOfDocument ? '|' : static_cast<char>(id);
  return text;
}

Corpus open(std::vector<std::string> inputs) {
  return open_corpus(inputs, byte_tokenizer);
}

/// A token file of another program: without a checksum.
std::string bare_token_file(const std::string& ids) {
  const std::string size = std::to_string(ids.size());
  std::string header =
      R"({"__metadata__":{"format":"moh-tokens","version":"1","tokenizer":"byte","vocab_size":"256"},"tokens":{"dtype":)"
      R"("U8","shape":[)" +
      size + R"(],"data_offsets":[0,)" + size + "]}}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + ids;
}

}  // namespace

TEST_CASE("data: one text file is its bytes, with nothing before, after or between") {
  const TemporaryFolder folder;
  const Corpus corpus = open({write_file(folder / "a.txt", "First Citizen:\n")});
  CHECK(corpus.num_tokens() == 15);
  CHECK(text_in(*split_corpus(corpus, byte_tokenizer, 0.0).train) == "First Citizen:\n");
  CHECK(split_corpus(corpus, byte_tokenizer, 0.0).validation->size() == 0);
}

TEST_CASE("data: the contents of a corpus are known whatever its files are called") {
  const TemporaryFolder folder;
  const auto contents = [&](const std::vector<std::pair<std::string, std::string>>& files) {
    const fs::path texts = folder / "texts";
    fs::remove_all(texts);
    for (const auto& [name, text] : files) write_file(texts / name, text);
    return open({texts.string()}).describe_contents();
  };
  const std::string two = contents({{"a", "one"}, {"b", "other"}});
  CHECK(two.starts_with("2 files, 8 tokens, checksum "));
  CHECK(contents({{"c", "one"}, {"d/e", "other"}}) == two);
  CHECK(contents({{"a", "other"}, {"b", "one"}}) != two);
  CHECK(contents({{"a", "one"}, {"b", "othex"}}) != two);
  CHECK(contents({{"a", "oneo"}, {"b", "ther"}}) != two);
  CHECK(contents({{"a", "one"}, {"b", "other"}, {"c", "."}}) != two);

  // Without a checksum of its own a token file is known by ids at places all over it, the first and last
  // among them.
  const std::string ids(5'000'000, 'x');
  const std::string plain = contents({{"a", bare_token_file(ids)}});
  for (const std::size_t place : {std::size_t{0}, ids.size() - 1}) {
    std::string changed = ids;
    changed[place] = 'y';
    CHECK(contents({{"a", bare_token_file(changed)}}) != plain);
  }
  CHECK(contents({{"a", bare_token_file(ids + "x")}}) != plain);
  std::string few = ids.substr(0, 9000);
  const std::string small = contents({{"a", bare_token_file(few)}});
  few[8500] = 'y';
  CHECK(contents({{"a", bare_token_file(few)}}) != small);
}

TEST_CASE("data: the tail of every file is held out, and nothing is in both parts") {
  const TemporaryFolder folder;
  write_file(folder / "1.txt", "abcdefghij");
  write_file(folder / "2.txt", "0123456789ABCDEFGHIJ");
  write_file(folder / "3.txt", "z");
  const Corpus corpus = open({folder.path().string()});
  const TokenSplit split = split_corpus(corpus, byte_tokenizer, 0.2);
  CHECK(text_in(*split.train) == "abcdefgh|0123456789ABCDEF");
  CHECK(text_in(*split.validation) == "ij|GHIJ|z");
}

TEST_CASE("data: a tenth of tiny_shakespeare's 1115394 characters splits where nanoGPT splits it") {
  const TemporaryFolder folder;
  const Corpus corpus = open({write_file(folder / "a.txt", std::string(1115394, 'x'))});
  const TokenSplit split = split_corpus(corpus, byte_tokenizer, 0.1);
  CHECK(split.train->size() == 1003854);  // int(0.9 * n)
  CHECK(split.validation->size() == 111540);
}

TEST_CASE("data: a validation fraction below 0, of 1 or more, or NaN is refused") {
  const TemporaryFolder folder;
  const Corpus corpus = open({write_file(folder / "a.txt", "abc")});
  CHECK_THROWS_AS(split_corpus(corpus, byte_tokenizer, 1.0), ValueError);
  CHECK_THROWS_AS(split_corpus(corpus, byte_tokenizer, -0.1), ValueError);
  CHECK_THROWS_AS(split_corpus(corpus, byte_tokenizer, std::nan("")), ValueError);
}

TEST_CASE("data: inputs without text are refused, and the message says what was found instead") {
  const TemporaryFolder folder;
  write_file(folder / "o/a.o", std::string("\0\0", 2));
  write_file(folder / "o/b.o", std::string("\0\0", 2));
  write_file(folder / "o/c.txt", "");
  CHECK_THROWS_AS(open({}), DataError);
  CHECK_THROWS_WITH(
      open({(folder / "o").string()}),
      Catch::Contains("/o: expected at least one file with text, found only files without any: 2 binary"));
  std::filesystem::create_directory(folder / "empty");
  CHECK_THROWS_WITH(open({(folder / "empty").string()}),
                    Catch::EndsWith("/empty: expected at least one file with text, found no file"));
}

TEST_CASE("data: training from a token file is training from its text") {
  const TemporaryFolder folder;
  write_file(folder / "text/1.txt", "abcdefghij");
  write_file(folder / "text/2.txt", "0123");
  write_file(folder / "text/skip.bin", std::string("\0", 1));
  const std::vector<std::string> inputs = {(folder / "text").string()};
  const std::string output = (folder / "tokens.bin").string();
  const TokenizeReport report = tokenize_files(inputs, output, byte_tokenizer);
  CHECK(report.info.num_tokens == 15);
  CHECK(report.info.num_documents == 2);
  CHECK(report.info.text_bytes == 14);
  CHECK(report.skipped.describe().find("1 binary") == 0);

  const TokenSplit from_file = split_corpus(open({output}), byte_tokenizer, 0.0);
  CHECK(text_in(*from_file.train) == "abcdefghij|0123");
  CHECK(ids_in(*from_file.train) == ids_in(*split_corpus(open(inputs), byte_tokenizer, 0.0).train));
}

TEST_CASE("data: text and token files mix") {
  const TemporaryFolder folder;
  const std::vector<std::string> inputs = {write_file(folder / "a.txt", "one")};
  write_file(folder / "mix/c.txt", "two");
  tokenize_files(inputs, folder / "mix/b.bin", byte_tokenizer);
  CHECK(text_in(*split_corpus(open({(folder / "mix").string()}), byte_tokenizer, 0.0).train) == "one|two");
}

TEST_CASE("data: safetensors files that are no token files are skipped in folders, and refused by name") {
  const TemporaryFolder folder;
  write_file(folder / "in/a.txt", "one");
  save_safetensors(folder / "in/model.safetensors", {}, {{"format", "pt"}});
  const Corpus corpus = open({(folder / "in").string()});
  CHECK(corpus.files.size() == 1);
  CHECK(corpus.skipped.describe().find("1 binary") == 0);
  CHECK_THROWS_WITH(open({(folder / "in/model.safetensors").string()}),
                    Catch::Contains("metadata, format: expected moh-tokens, found pt"));
}

TEST_CASE("data: tokenizing refuses to overwrite its input, and token files as text") {
  const TemporaryFolder folder;
  const std::string text = write_file(folder / "in/a.txt", "abc");
  const std::vector<std::string> inputs = {(folder / "in").string()};
  CHECK_THROWS_AS(tokenize_files(inputs, text, byte_tokenizer), DataError);
  CHECK(read_file(text) == "abc");

  tokenize_files(inputs, folder / "in/out.bin", byte_tokenizer);
  CHECK_THROWS_WITH(tokenize_files(inputs, folder / "other.bin", byte_tokenizer),
                    (folder / "in/out.bin").string() + ": expected text, found a moh token file");
  CHECK_FALSE(std::filesystem::exists(folder / "other.bin"));
}
