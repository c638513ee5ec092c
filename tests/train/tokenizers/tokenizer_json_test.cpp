#include "train/tokenizers/tokenizer_json.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/shared_data.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tokenizers/golden.h"

using namespace moh;
using namespace moh::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const json& golden() {
  static const json contents = golden_file("golden.json");
  return contents;
}

std::filesystem::path file_of(const std::string& name) {
  return tokenizer_tests() / "data" / (name + ".json");
}

/// A tokenizer.json, changed, and what is said of it.
void check_refused(const json& contents, const std::string& message) {
  const TemporaryFolder temporary;
  const auto path = temporary.path() / "tokenizer.json";
  write_file(path, contents.dump());
  CHECK_THROWS_AS(read_tokenizer_json(path), DataError);
  CHECK_THROWS_WITH(read_tokenizer_json(path), Contains(message));
}

}  // namespace

TEST_CASE("tokenizer.json: ids and texts are those of the library tokenizers, for every character") {
  for (const auto& [name, expected] : golden()["of"].items())
    check_texts_and_planes(name, *read_tokenizer_json(file_of(name)), golden()["texts"], expected);
}

TEST_CASE("tokenizer.json: the hash is that of the ids, not of the file's form") {
  const TemporaryFolder temporary;
  const auto path = temporary / "tokenizer.json";
  const auto hash_of_json = [&](const json& contents, int indent) {
    write_file(path, contents.dump(indent));
    return read_tokenizer_json(path)->content_hash();
  };
  const json original = gpt2_json();
  const std::uint64_t expected = read_tokenizer_json(file_of("gpt2"))->content_hash();
  json same = original;
  same["truncation"] = {{"max_length", 512}};
  for (json& merge : same["model"]["merges"]) {
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      merge = {text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)};
    } else {
      merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
    }
  }
  CHECK(hash_of_json(same, 4) == expected);
  json other = original;
  std::swap(other["model"]["merges"][0], other["model"]["merges"][1]);
  CHECK(hash_of_json(other, -1) != expected);
  other = original;
  other["normalizer"] = {{"type", "NFC"}};
  CHECK(hash_of_json(other, -1) != expected);
}

TEST_CASE("tokenizer.json: files of text have the ids of the library tokenizers", "[shared]") {
  const auto shared = shared_data();
  if (!shared) MOH_SKIP("MOH_SHARED is not set");
  for (const auto& [name, expected] : golden()["of"].items())
    check_files(name, *read_tokenizer_json(file_of(name)), *shared, expected);
}

TEST_CASE("tokenizer.json: decoding what a byte-level tokenizer encodes gives the text back") {
  for (const std::string name : {"gpt2", "llama3"}) {
    const auto tokenizer = read_tokenizer_json(file_of(name));
    std::string text;
    for (std::uint32_t code = 1; code < 0x3000; ++code) add_utf8(code, text);
    CHECK(decoded(*tokenizer, ids_of(*tokenizer, text)) == text);
    // Bytes that are not UTF-8 are read as Python reads them with errors="replace".
    CHECK(decoded(*tokenizer, ids_of(*tokenizer, "a\xff\xe4\xb8z\xc0\xaf\xf0\x9f\x98")) ==
          "a\uFFFD\uFFFDz\uFFFD\uFFFD\uFFFD");
  }
}

TEST_CASE("tokenizer.json: ids at the beginning of a text, and the one at the end of a document") {
  const auto llama3 = read_tokenizer_json(file_of("llama3"));
  CHECK(llama3->sequence_start() == std::vector<TokenId>{ids_of(*llama3, "<|begin_of_text|>")});
  CHECK(llama3->end_of_document() == ids_of(*llama3, "<|end_of_text|>").at(0));
  CHECK(llama3->token_bytes(*llama3->end_of_document()).empty());
  CHECK(read_tokenizer_json(file_of("gpt2"))->sequence_start().empty());
  CHECK(read_tokenizer_json(file_of("llama2"))->end_of_document() == 2);
  CHECK(read_tokenizer_json(file_of("splits"))->end_of_document() == std::nullopt);
  CHECK_THROWS_WITH(llama3->token_bytes(-1), Contains("expected 0 ... 705, found -1"));
  CHECK(llama3->vocab_size() == 706);

  const TemporaryFolder temporary;
  std::filesystem::copy(file_of("llama3"), temporary.path() / "tokenizer.json");
  write_file(temporary.path() / "tokenizer_config.json", R"({"eos_token": {"content": "<|eot_id|>"}})");
  const auto chat = read_tokenizer_json(temporary.path() / "tokenizer.json");
  CHECK(chat->end_of_document() == ids_of(*llama3, "<|eot_id|>").at(0));
  CHECK(chat->content_hash() == llama3->content_hash());
  write_file(temporary.path() / "tokenizer_config.json", R"({"eos_token": "<|nobody|>"})");
  CHECK_THROWS_WITH(read_tokenizer_json(temporary.path() / "tokenizer.json"),
                    Contains("eos_token: expected a token of tokenizer.json, found '<|nobody|>'"));
}

TEST_CASE("tokenizer.json: what would be encoded in another way is refused by name") {
  json changed = gpt2_json();
  changed["model"]["type"] = "Unigram";
  check_refused(changed, "model.type: expected one of BPE, found \"Unigram\"");
  changed = gpt2_json();
  changed["normalizer"] = {{"type", "Lowercase"}};
  check_refused(changed, "normalizer.type: expected one of NFC, NFD");
  changed = gpt2_json();
  changed["pre_tokenizer"] = {{"type", "Sequence"},
                              {"pretokenizers", {changed["pre_tokenizer"], {{"type", "BertPreTokenizer"}}}}};
  check_refused(changed, "pre_tokenizer.pretokenizers[1].type: expected nothing after ByteLevel");
  changed["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "^a"}}}, {"behavior", "Isolated"}, {"invert", false}};
  check_refused(changed, "expected constructs that all engines understand alike, found ^, an anchor");
  changed = gpt2_json();
  changed["decoder"] = {{"type", "WordPiece"}};
  check_refused(changed, "decoder.type: expected one of ByteFallback, ByteLevel");
  changed["decoder"] = nullptr;
  check_refused(changed, "decoder: expected a decoder");
  changed = gpt2_json();
  changed["post_processor"] = {{"type", "BertProcessing"}};
  check_refused(changed, "post_processor.type: expected one of ByteLevel, Sequence, TemplateProcessing");
  changed = gpt2_json();
  changed["model"]["dropout"] = 0.1;
  check_refused(changed, "model.dropout: expected null: the same ids each time, found 0.1");
  changed = gpt2_json();
  changed["model"]["end_of_word_suffix"] = "</w>";
  check_refused(changed, "model.end_of_word_suffix: expected null");
}

TEST_CASE("tokenizer.json: damaged files are refused") {
  json changed = gpt2_json();
  changed["model"]["merges"].push_back({"zq", "x"});
  check_refused(changed, "no token 'zq'");
  changed["model"]["merges"].back() = "a b c";
  check_refused(changed, "expected two tokens with a space between them");
  changed = gpt2_json();
  changed["model"]["vocab"]["new"] = 3;
  check_refused(changed, "model.vocab: expected ids that differ, found 3 twice");
  changed["model"]["vocab"]["new"] = std::int64_t{1} << 40;
  check_refused(changed, "model.vocab.'new': expected an id of 0 ... 16777216");
  changed["model"]["vocab"]["new"] = -1;
  check_refused(changed, "expected an id of 0");
  changed = gpt2_json();
  changed.erase("model");
  check_refused(changed, "expected an object with model");
  changed = gpt2_json();
  changed["added_tokens"][0]["content"] = 5;
  check_refused(changed, "added_tokens[0].content: expected a text, found 5");
}

TEST_CASE("tokenizer.json: a character without a token is an error, where there is no unknown token") {
  json changed = json::parse(read_file(file_of("splits")));
  changed["model"]["unk_token"] = nullptr;
  const TemporaryFolder temporary;
  write_file(temporary.path() / "tokenizer.json", changed.dump());
  const auto tokenizer = read_tokenizer_json(temporary.path() / "tokenizer.json");
  CHECK_THROWS_WITH(ids_of(*tokenizer, "a\u1234"), Contains("characters of its vocabulary"));
}
