#include <array>
#include <bit>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/support/shared_data.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tokenizers/golden.h"
#include "train/tokenizers/open_tokenizer.h"
#include "train/tokenizers/sentencepiece.h"
#include "train/tokenizers/tiktoken.h"
#include "train/tokenizers/write_tokenizer_json.h"

using namespace moh;
using namespace moh::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const json& golden_models() {
  static const json contents = golden_file("golden_models.json");
  return contents;
}

/// Opens what a name in golden_models.json stands for: a SentencePiece model, or a pattern of the ranks.
std::unique_ptr<const Tokenizer> open_named(const std::string& name) {
  const auto data = tokenizer_tests() / "data";
  if (name.ends_with(".model")) return open_tokenizer("test", data / name);
  const TemporaryFolder folder;
  // As LLaMA 3 names it: contents decide.
  std::filesystem::copy(data / "ranks.tiktoken", folder / "tokenizer.model");
  write_file(folder / "tiktoken.json",
             json({{"pattern", name}, {"special_tokens", golden_models()["special"]}}).dump());
  return open_tokenizer("test", folder.path());
}

// ---- SentencePiece models, written by hand ----

std::string field(int number, const std::string& bytes) {
  std::string text;
  text += static_cast<char>(number << 3 | 2);
  std::size_t size = bytes.size();
  for (; size >= 0x80; size >>= 7) text += static_cast<char>(size | 0x80U);
  text += static_cast<char>(size);
  return text + bytes;
}

std::string number_field(int number, char value) {
  const int tag = number << 3;
  std::string text;
  if (tag >= 0x80) {
    text += static_cast<char>(tag | 0x80);
    text += static_cast<char>(tag >> 7);
  } else {
    text += static_cast<char>(tag);
  }
  return text + value;
}

std::string piece(const std::string& text, float score, char type = 1) {
  std::string bits(4, '\0');
  const auto value = std::bit_cast<std::uint32_t>(score);
  for (unsigned i = 0; i < 4; ++i) bits[i] = static_cast<char>(value >> (8 * i));
  return field(1, field(1, text) + "\x15" + bits + number_field(3, type));
}

std::string trainer(char model_type, const std::string& more = "") {
  return field(2, number_field(3, model_type) + more);
}

/// No prefix, no extra spaces removed.
const std::string plain_samples = field(3, number_field(3, 0) + number_field(4, 0));

/// Texts and what is expected of them but for those with names of control pieces, which `tokenizers` finds in
/// a text and sentencepiece does not.
std::pair<json, json> without_control_pieces(const std::string& name, const json& expected) {
  json texts = json::array(),
       rest = {{"ids", json::array()}, {"decoded", json::array()}, {"planes", expected["planes"]}};
  for (std::size_t i = 0; i < golden_models()["texts"].size(); ++i) {
    const auto text = golden_models()["texts"][i].get<std::string>();
    const bool has_name = text.find("</s>") != std::string::npos || text.find("<unk>") != std::string::npos;
    if (name.ends_with(".model") && has_name) continue;
    texts.push_back(text);
    rest["ids"].push_back(expected["ids"][i]);
    // The unknown piece is a special token there, which has no text.
    const json& decoded = expected["decoded"][i];
    const bool has_unknown =
        decoded.is_string() && decoded.get<std::string>().find("\u2047") != std::string::npos;
    rest["decoded"].push_back(has_unknown ? json() : decoded);
  }
  return {texts, rest};
}

void check_model_refused(const std::string& model, const std::string& message) {
  const TemporaryFolder folder;
  const auto path = folder / "tokenizer.model";
  write_file(path, model);
  CHECK_THROWS_AS(read_sentencepiece(path), DataError);
  CHECK_THROWS_WITH(read_sentencepiece(path), Contains(message));
}

std::vector<TokenId> ids_by_model(const std::string& model, std::string_view text) {
  const TemporaryFolder folder;
  const auto path = folder / "tokenizer.model";
  write_file(path, model);
  return ids_of(*read_sentencepiece(path), text);
}

void check_ranks_refused(const std::string& ranks, const std::string& message,
                         const std::string& encoding = R"({"pattern": "gpt2"})") {
  const TemporaryFolder folder;
  write_file(folder / "tiktoken.json", encoding);
  write_file(folder / "a.tiktoken", ranks);
  CHECK_THROWS_AS(read_tiktoken(folder / "a.tiktoken"), DataError);
  CHECK_THROWS_WITH(read_tiktoken(folder / "a.tiktoken"), Contains(message));
}

}  // namespace

TEST_CASE("SentencePiece and tiktoken: ids and texts are those of the libraries, for every character") {
  for (const auto& [name, expected] : golden_models()["of"].items())
    check_texts_and_planes(name, *open_named(name), golden_models()["texts"], expected);
}

TEST_CASE("SentencePiece and tiktoken: files of text have the ids of the libraries", "[shared]") {
  const auto shared = shared_data();
  if (!shared) MOH_SKIP("MOH_SHARED is not set");
  for (const auto& [name, expected] : golden_models()["of"].items())
    check_files(name, *open_named(name), *shared, expected);
}

TEST_CASE("SentencePiece and tiktoken: a tokenizer.json that is made of them gives the same ids") {
  for (const auto& [name, expected] : golden_models()["of"].items()) {
    if (name == "t5.model" || name == "unigram.model") continue;  // moh reads no unigram in a tokenizer.json
    const TemporaryFolder from, to;
    const auto original = open_named(name);
    for (const TokenizerFile& file : original->files()) write_file(from / file.name, file.contents);
    write_file(to / "tokenizer.json", tokenizer_json_of(tokenizer_file_in(from.path())));
    const auto made = open_tokenizer("test", to.path());
    CHECK(made->name() == "tokenizer.json");
    CHECK(made->vocab_size() == original->vocab_size());
    CHECK(made->sequence_start() == original->sequence_start());
    const auto [texts, without] = without_control_pieces(name, expected);
    // The planes with most characters, and one without any.
    check_texts_and_planes(name, *made, texts, without, std::array{0U, 1U, 16U});
  }
}

TEST_CASE("SentencePiece: what a tokenizer.json cannot say is refused") {
  const TemporaryFolder folder;
  const auto path = folder / "tokenizer.model";
  const std::string unknown = piece("<unk>", 0, 2);
  write_file(path, unknown + piece("a", -3) + piece("ab", -1) + trainer(2));
  CHECK_THROWS_WITH(tokenizer_json_of(path), Contains("pieces: expected all characters of pieces, as in a "
                                                      "tokenizer.json, found none for 'b'"));
  write_file(path, unknown + piece("a", -3) + piece("b", -1, 5) + trainer(1));
  CHECK_THROWS_WITH(tokenizer_json_of(path), Contains("piece 2: expected pieces in use"));
  write_file(path, "{}");
  CHECK_THROWS_AS(tokenizer_json_of(path), DataError);
}

TEST_CASE("tokenizers: the original of a tokenizer.json counts where the files name it") {
  const TemporaryFolder folder;
  const auto data = tokenizer_tests() / "data";
  std::filesystem::copy(data / "llama2.model", folder / "tokenizer.model");
  std::filesystem::copy(data / "llama2.json", folder / "tokenizer.json");
  CHECK(open_tokenizer("test", folder.path())->name() == "tokenizer.json");
  write_file(folder / "tokenizer_config.json", R"({"moh_tokenizer_file": "tokenizer.model"})");
  CHECK(open_tokenizer("test", folder.path())->name() == "tokenizer.model");
  write_file(folder / "tokenizer_config.json", R"({"moh_tokenizer_file": "../tokenizer.model"})");
  CHECK(open_tokenizer("test", folder.path())->name() == "tokenizer.json");
  write_file(folder / "tokenizer_config.json", R"({"moh_tokenizer_file": 3})");
  CHECK_THROWS_WITH(open_tokenizer("test", folder.path()),
                    Contains("moh_tokenizer_file: expected the name of a file"));
}

TEST_CASE("SentencePiece: ids at the beginning of a text, and the one at the end of a document") {
  const auto llama2 = open_named("llama2.model");
  CHECK(llama2->name() == "tokenizer.model");
  CHECK(llama2->sequence_start() == std::vector<TokenId>{1});
  CHECK(llama2->end_of_document() == 2);
  const auto t5 = open_named("t5.model");
  CHECK(t5->sequence_start().empty());
  CHECK(t5->end_of_document() == 1);
  const TemporaryFolder folder;
  std::filesystem::copy(tokenizer_tests() / "data/llama2.model", folder / "tokenizer.model");
  write_file(folder / "tokenizer_config.json", R"({"add_bos_token": false, "eos_token": "<sep>"})");
  const auto changed = open_tokenizer("test", folder.path());
  CHECK(changed->sequence_start().empty());
  CHECK(changed->token_bytes(*changed->end_of_document()).empty());
  CHECK(changed->files().size() == 2);
  CHECK(changed->files()[0].name == "tokenizer.model");
  CHECK(changed->content_hash() == llama2->content_hash());
  write_file(folder / "tokenizer_config.json", R"({"eos_token": "<nobody>"})");
  CHECK_THROWS_WITH(open_tokenizer("test", folder.path()),
                    Contains("eos_token: expected a piece of the SentencePiece model, found '<nobody>'"));
}

TEST_CASE("SentencePiece: equal scores are merged from the left, and characters that are no pieces") {
  // "b" is part of pieces and none itself: it is unknown where it is not merged.
  const std::string pieces = piece("<unk>", 0, 2) + piece("a", -3) + piece("ab", -1) + piece("ba", -1) +
                             piece("c", -3) + trainer(2) + plain_samples;
  CHECK(ids_by_model(pieces, "aba") == std::vector<TokenId>{2, 1});
  CHECK(ids_by_model(pieces, "bab") == std::vector<TokenId>{3, 0});
  CHECK(ids_by_model(pieces, "bbcxb") == std::vector<TokenId>{0, 4, 0});  // a row of unknowns is one
}

TEST_CASE("SentencePiece: user-defined pieces that overlap others have the ids of the library") {
  // Found by comparing random models and texts with sentencepiece 0.2.3.
  const std::string overlapping =
      piece("<unk>", 0, 2) + piece("a", -1) + piece("b", -1) + piece("bcb", -2.550691584603836F) +
      piece("cbc", -6.808582190960093F) + piece("acc", 0, 4) + piece("abb", 0, 4) + piece("bbb", 0, 4) +
      piece("acb", -7.417704678354886F) + piece("bb", 0, 4) + trainer(1) + plain_samples;
  CHECK(ids_by_model(overlapping, "abbbabdddaaba") == std::vector<TokenId>{1, 7, 1, 2, 0, 1, 1, 2, 1});
  CHECK(ids_by_model(overlapping, "ccdadddccdccbadbdbdaaccdccdcddbbbbba") ==
        std::vector<TokenId>{0, 1, 0, 2, 1, 0, 2, 0, 2, 0, 1, 5, 0, 9, 7, 1});
  const std::string preferred = piece("<unk>", 0, 2) + piece("a", -3) + piece("b", -5.775759196176774F) +
                                piece("c", -2) + piece("ba", 0.5F, 4) + piece("bcca", -0.7051930863313052F) +
                                piece("cba", -2) + trainer(1) + plain_samples;
  CHECK(ids_by_model(preferred, "cbadbdbadadbdcdbabbddd") ==
        std::vector<TokenId>{3, 4, 0, 2, 0, 4, 0, 1, 0, 2, 0, 3, 0, 4, 2, 2, 0});
}

TEST_CASE("SentencePiece: a text that goes on has no space put before it") {
  const auto llama2 = open_named("llama2.model");
  std::vector<TokenId> whole = ids_of(*llama2, "the head of a layer"), parts = ids_of(*llama2, "the head");
  llama2->encode_rest(" of a layer", parts);
  CHECK(parts == whole);
}

TEST_CASE("SentencePiece: what is not supported, and damage, are refused") {
  const std::string unknown = piece("<unk>", 0, 2), a = piece("a", -1);
  check_model_refused(unknown + a + trainer(3),
                      "trainer_spec.model_type: expected unigram or bpe, found word");
  check_model_refused(unknown + a + trainer(4), "found char");
  check_model_refused(unknown + a + trainer(1, number_field(24, 1)), "treat_whitespace_as_suffix");
  check_model_refused(a + trainer(1), "expected one unknown piece, found 0");
  check_model_refused(unknown + a + a + trainer(1), "expected texts that differ, found a");
  check_model_refused(unknown + piece("b", std::numeric_limits<float>::quiet_NaN()),
                      "piece 1: expected a finite score");
  check_model_refused(unknown + piece("b", 0, 9), "piece 1: expected a type of 1 ... 6, found 9");
  check_model_refused(unknown + piece("", 0), "piece 1: expected a text of 1 ...");
  check_model_refused(unknown + piece("<0xG0>", 0, 6), "expected <0x00> ... <0xFF>");
  check_model_refused(unknown + a + trainer(1, std::string("\x98\x02\x01", 3)), "expected 256 of bytes");
  check_model_refused(unknown + piece("b", 0, 5) + trainer(2), "expected pieces in use");
  check_model_refused(unknown + a + field(3, field(2, "rules")),
                      "precompiled_charsmap: expected a double array");
  check_model_refused(unknown + a + field(5, field(2, "x")),
                      "denormalizer_spec: expected no rules for decoding");
  const std::string whole = read_file(tokenizer_tests() / "data/llama2.model");
  check_model_refused(whole.substr(0, whole.size() / 2), "expected a sound message of Protocol Buffers");
}

TEST_CASE("tiktoken: a published encoding is known by the number of its ranks") {
  std::string ranks;
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  // 256 bytes, then pairs of letters with a number of three bytes: all differ.
  const auto base64 = [&](std::string bytes) {
    const std::size_t padding = (3 - bytes.size() % 3) % 3;
    bytes.append(padding, '\0');
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
      std::uint32_t bits = 0;
      for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | static_cast<unsigned char>(bytes[i + k]);
      for (int shift = 18; shift >= 0; shift -= 6) text += alphabet[bits >> shift & 63];
    }
    for (std::size_t i = 0; i < padding; ++i) text[text.size() - 1 - i] = '=';
    return text;
  };
  for (int rank = 0; rank < 128000; ++rank) {
    std::string token = rank < 256 ? std::string(1, static_cast<char>(rank)) : "ab";
    if (rank >= 256)
      for (const int shift : {0, 8, 16}) token += static_cast<char>(rank >> shift);
    ranks += base64(token) + " " + std::to_string(rank) + "\n";
  }
  const TemporaryFolder folder;
  write_file(folder / "tokenizer.model", ranks);
  const auto llama3 = open_tokenizer("test", folder.path());
  CHECK(llama3->vocab_size() == 128256);
  CHECK(llama3->sequence_start() == std::vector<TokenId>{128000});
  CHECK(llama3->end_of_document() == 128001);
  CHECK(ids_of(*llama3, "a<|eot_id|>") == std::vector<TokenId>{'a', 128009});
  CHECK(ids_of(*llama3, "<|reserved_special_token_250|>") == std::vector<TokenId>{128255});
  CHECK(llama3->files()[0].name == "tokenizer.tiktoken");
}

TEST_CASE("tiktoken: a token that only a file beside names is refused in text, and nowhere else") {
  const std::string ranks = read_file(tokenizer_tests() / "data/ranks.tiktoken");
  const TemporaryFolder folder;
  write_file(folder / "a.tiktoken", ranks);
  write_file(folder / "tiktoken.json", R"({"pattern": "gpt2", "special_tokens": {"<|endoftext|>": 9000}})");
  write_file(folder / "tokenizer_config.json",
             R"({"pad_token": "<pad>", "additional_special_tokens": ["<|endoftext|>", "!"]})");
  const auto tokenizer = read_tiktoken(folder / "a.tiktoken");
  CHECK(ids_of(*tokenizer, "a!<|endoftext|>").size() == 3);
  CHECK_THROWS_WITH(ids_of(*tokenizer, "a<pad>b"),
                    Contains("expected tokens of the tokenizer's own file, found '<pad>'"));
  write_file(folder / "tokenizer_config.json",
             R"({"added_tokens_decoder": {"9001": {"content": "<|endoftext|>"}}})");
  CHECK_THROWS_WITH(
      read_tiktoken(folder / "a.tiktoken"),
      Contains("added_tokens_decoder.9001: expected the id 9000 of '<|endoftext|>', found 9001"));
}

TEST_CASE("tiktoken: files without a pattern, and damaged ones, are refused") {
  const std::string ranks = read_file(tokenizer_tests() / "data/ranks.tiktoken");
  const TemporaryFolder folder;
  write_file(folder / "a.tiktoken", ranks);
  CHECK_THROWS_WITH(
      read_tiktoken(folder / "a.tiktoken"),
      Contains("found 704 ranks; name it in a file tiktoken.json beside: {\"pattern\": \"cl100k\""));
  check_ranks_refused(ranks + "abc 9000\n",
                      "a.tiktoken:705: expected a token in base64, a space, and its rank");
  check_ranks_refused(ranks + "YWFhYWFh 9000000\n",
                      "expected ids of at most 68356 for 705 ranks, found 9000000");
  check_ranks_refused(ranks + "IQ== -1\n", ":705: expected a token in base64");
  check_ranks_refused(ranks + "IQ== 9000\n", "expected ranks and tokens that differ");
  check_ranks_refused(ranks.substr(ranks.find('\n') + 1), "expected all 256 single bytes, found 255");
  check_ranks_refused(
      ranks, "pattern: expected gpt2, cl100k, o200k, llama3, qwen, or a regular expression, found none",
      "{}");
  check_ranks_refused(ranks, "expected an id that is no rank, found 5",
                      R"({"pattern": "gpt2", "special_tokens": {"<|endoftext|>": 5}})");
  check_ranks_refused(ranks, "'<b>': expected an id that no other token has, found 9000, that of '<a>'",
                      R"({"pattern": "gpt2", "special_tokens": {"<a>": 9000, "<b>": 9000}})");
  check_ranks_refused(ranks, "special_tokens: expected ids of 0 ...",
                      R"({"pattern": "gpt2", "special_tokens": {"<|endoftext|>": -5}})");
  check_ranks_refused(ranks, "regular expression", R"({"pattern": "(a"})");
}
