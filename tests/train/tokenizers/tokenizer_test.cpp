#include "train/tokenizers/tokenizer.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/tokenizers/open_tokenizer.h"

using namespace moh;

TEST_CASE("data: the byte tokenizer gives every byte of any text back") {
  const ByteTokenizer tokenizer;
  std::string text;
  for (int byte = 1; byte < 256; ++byte) text += static_cast<char>(byte);
  text += "Zürich 東京 🙂";
  std::vector<TokenId> ids = {7};
  tokenizer.encode(text, ids);
  REQUIRE(ids.size() == text.size() + 1);  // appended
  CHECK(ids[1] == 1);
  CHECK(ids[255] == 255);
  std::string back;
  for (std::size_t i = 1; i < ids.size(); ++i) back += tokenizer.token_bytes(ids[i]);
  CHECK(back == text);
}

TEST_CASE("data: the byte tokenizer keeps id 0 for the end of a document") {
  const ByteTokenizer tokenizer;
  CHECK(tokenizer.end_of_document() == 0);
  CHECK(tokenizer.token_bytes(0).empty());
  CHECK(tokenizer.token_bytes(255) == "\xFF");
  std::vector<TokenId> ids;
  CHECK_THROWS_WITH(tokenizer.encode(std::string("ab\0c", 4), ids), Catch::Contains("found one at byte 2"));
  CHECK_THROWS_WITH(tokenizer.token_bytes(256), Catch::Contains("expected 0 ... 255, found 256"));
  CHECK_THROWS_AS(tokenizer.token_bytes(-1), ValueError);
}

TEST_CASE("data: special tokens have a spelling, tokens with text have none") {
  const ByteTokenizer bytes;
  CHECK(bytes.special_text(0) == std::string_view("\0", 1));
  CHECK(bytes.special_text(97).empty());
  const std::filesystem::path data = std::filesystem::path(MOH_SOURCE_DIR) / "tests/train/tokenizers/data";
  for (const char* file : {"gpt2.json", "llama2.json", "llama2.model"}) {
    const auto tokenizer = open_tokenizer("data.tokenizer", data / file);
    const TokenId end = tokenizer->end_of_document().value();
    INFO(file);
    CHECK(tokenizer->token_bytes(end).empty());
    CHECK((tokenizer->special_text(end) == "</s>" || tokenizer->special_text(end) == "<|endoftext|>"));
    for (TokenId id = 0; id < tokenizer->vocab_size(); ++id)
      CHECK((tokenizer->token_bytes(id).empty() || tokenizer->special_text(id).empty()));
  }
}

TEST_CASE("data: control characters pass where no terminal reads them") {
  Utf8Stream terminal, file(ControlCharacters::kKeep);
  CHECK(terminal.push("a\x1B[2J\n") == "a\uFFFD[2J\n");
  CHECK(file.push("a\x1B[2J\n\xE4") == "a\x1B[2J\n");
  CHECK(file.push("\xBD\xA0\xFF") == "\u4F60\uFFFD");
  CHECK(file.push("\xE4\xBD").empty());
  CHECK(file.finish() == "\uFFFD");
}

TEST_CASE("data: tokenizers are opened by name or path") {
  const auto tokenizer = open_tokenizer("data.tokenizer", "byte");
  CHECK(tokenizer->name() == "byte");
  CHECK(tokenizer->vocab_size() == 256);
  // Token files and checkpoints carry this number: it may change only together with the ids themselves.
  CHECK(tokenizer->content_hash() == 0x53d7c45fc666af84);
  CHECK_THROWS_AS(open_tokenizer("data.tokenizer", "bpe"), ConfigError);
  CHECK_THROWS_WITH(
      open_tokenizer("data.tokenizer", "bpe"),
      "data.tokenizer: bpe: expected byte, the file of a tokenizer (tokenizer.json, a SentencePiece .model, "
      "a .tiktoken), or a folder with one, found no such file or folder");
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(open_tokenizer("--tokenizer", folder.path()), Catch::Contains("found a folder without"));
  const std::filesystem::path data = std::filesystem::path(MOH_SOURCE_DIR) / "tests/train/tokenizers/data";
  std::filesystem::copy(data / "gpt2.json", folder / "tokenizer.json");
  write_file(folder / "tokenizer_config.json", "{}");
  const auto opened = open_tokenizer("data.tokenizer", folder.path());
  CHECK(describe(*opened) == "tokenizer.json, 700 tokens, hash " + hash_text(opened->content_hash()));
  CHECK(opened->files() == std::vector<TokenizerFile>{{"tokenizer.json", read_file(data / "gpt2.json")},
                                                      {"tokenizer_config.json", "{}"}});
}

namespace {

/// Feeds `bytes` in pieces of `step`; the outcome must not depend on where they are cut.
std::string streamed(std::string_view bytes, std::size_t step) {
  Utf8Stream stream;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += step) text += stream.push(bytes.substr(i, step));
  return text + stream.finish();
}

const std::string replacement = "\xEF\xBF\xBD";

}  // namespace

TEST_CASE("data: streamed text shows whole characters only") {
  Utf8Stream stream;
  CHECK(stream.push("a\xE6\x9D") == "a");
  CHECK(stream.push("\xB1") == "東");
  CHECK(stream.push("\xF0\x9F").empty());
  CHECK(stream.finish() == replacement);
  CHECK(stream.finish().empty());
}

TEST_CASE("data: streamed bytes that form no character are replaced, wherever the pieces end") {
  struct Case {
    std::string bytes, text;
  };
  const Case cases[] = {
      {"Zürich 東京 🙂\n\t", "Zürich 東京 🙂\n\t"},
      {"\x80x", replacement + "x"},                               // continuation without a lead
      {"\xC0\xAF", replacement + replacement},                    // overlong "/"
      {"\xE0\x80\xAF", replacement + replacement + replacement},  // overlong in three bytes
      {"\xED\xA0\x80", replacement + replacement + replacement},  // surrogate
      {"\xF4\x90\x80\x80", replacement + replacement + replacement + replacement},  // past U+10FFFF
      {"\xE6\x9D"
       "a",
       replacement + "a"},                                                   // cut off by another character
      {"\xF0\x9F\x99", replacement},                                         // cut off by the end
      {"\x1B[31m\r\x7F", replacement + "[31m" + replacement + replacement},  // terminal control
      {"\xC2\x9B"
       "1m",
       replacement + "1m"},  // the one-character form of ESC [
      {"\xC2\xA0", "\xC2\xA0"},
  };
  for (const Case& c : cases) {
    for (std::size_t step : {1, 2, 3, 100}) {
      INFO("step " << step);
      CHECK(streamed(c.bytes, step) == c.text);
    }
  }
}
