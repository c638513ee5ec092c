#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tokenizers/golden.h"
#include "train/tokenizers/tokenizer_json.h"

using namespace moh;
using namespace moh::test;
using Catch::Contains;
using nlohmann::json;

namespace {

using Ids = std::vector<TokenId>;

json token(TokenId id, const std::string& content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

/// A tokenizer.json in a folder of its own, and what lies beside it.
class Folder {
 public:
  explicit Folder(const json& tokenizer) { add("tokenizer.json", tokenizer); }
  Folder& add(const std::string& name, const json& contents) {
    write_file(folder_ / name, contents.dump());
    return *this;
  }
  std::unique_ptr<const Tokenizer> open() const { return read_tokenizer_json(folder_ / "tokenizer.json"); }
  Ids ids(const std::string& text) const { return ids_of(*open(), text); }
  void refused(const std::string& message) const {
    CHECK_THROWS_AS(open(), DataError);
    CHECK_THROWS_WITH(open(), Contains(message));
  }

 private:
  TemporaryFolder folder_;
};

json with_added(std::vector<json> tokens) {
  json file = gpt2_json();
  for (json& token : tokens) file["added_tokens"].push_back(std::move(token));
  return file;
}

TokenId id_in(const json& file, const std::string& token) {
  return file["model"]["vocab"][token].get<TokenId>();
}

}  // namespace

TEST_CASE("added tokens: an id that the library would not give is refused at its entry") {
  const TokenId x = id_in(gpt2_json(), "x"), y = id_in(gpt2_json(), "y"), z = id_in(gpt2_json(), "z");
  CHECK(Folder(with_added({token(700, "<a>"), token(701, "<b>")})).ids("x<a>y<b>z") ==
        Ids{x, 700, y, 701, z});
  Folder(with_added({token(700, "<a>"), token(710, "<b>")}))
      .refused("added_tokens[2].id: expected 701, which the library gives, found 710");
  Folder(with_added({token(705, "<a>")}))
      .refused("added_tokens[1].id: expected 700, which the library gives, found 705");
  Folder(with_added({token(700, "<a>"), token(701, "<a>")}))
      .refused("added_tokens[2].id: expected 700, which the library gives, found 701");
  Folder(with_added({token(700, "<a>"), token(700, "<b>")}))
      .refused("added_tokens[2].id: expected 701, which the library gives, found 700");
  Folder(with_added({token(5, "<a>")}))
      .refused("added_tokens[1].id: expected 700, which the library gives, found 5");
  // A text that the vocabulary has keeps its id there.
  const TokenId the = id_in(gpt2_json(), "the");
  Folder(with_added({token(700, "the")}))
      .refused("added_tokens[1].id: expected " + std::to_string(the) +
               ", which the library gives, found 700");
  CHECK(Folder(with_added({token(the, "the")})).ids("xthe") == Ids{x, the});
  // The number of tokens is the next free id, where the vocabulary has gaps, too.
  json gap = gpt2_json();
  const TokenId last = 699;
  for (auto& [name, id] : gap["model"]["vocab"].items()) {
    if (id == last) id = 720;
  }
  gap["added_tokens"].push_back(token(721, "<a>"));
  Folder(gap).refused("added_tokens[1].id: expected 700, which the library gives, found 721");
  gap["added_tokens"].back()["id"] = 700;
  CHECK(Folder(gap).ids("<a>") == Ids{700});
}

TEST_CASE("added tokens: an id that the vocabulary gives to another token is damage") {
  json gap = gpt2_json();
  for (auto& [name, id] : gap["model"]["vocab"].items()) {
    if (id == 300) id = 700;  // the next free id of the library, by the number of tokens, is taken
  }
  gap["added_tokens"].push_back(token(700, "<a>"));
  Folder(gap).refused("added_tokens[1].id: expected an id that no other token has, found 700, that of '");
}

TEST_CASE("added tokens: a template's ids are those of its tokens") {
  json file = gpt2_json();
  file["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|endoftext|>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", json::array()},
      {"special_tokens",
       {{"<|endoftext|>", {{"id", "<|endoftext|>"}, {"ids", {0}}, {"tokens", {"<|endoftext|>"}}}}}}};
  CHECK(Folder(file).open()->sequence_start() == Ids{0});
  json& entry = file["post_processor"]["special_tokens"]["<|endoftext|>"];
  entry["ids"] = {5};
  Folder(file).refused(
      "post_processor.special_tokens.<|endoftext|>.ids[0]: expected 0, the id of '<|endoftext|>', found 5");
  entry["ids"] = {0, 1};
  Folder(file).refused("expected as many ids as tokens, found 2 ids of 1");
  entry["ids"] = {0};
  entry["tokens"] = {"<s>"};
  Folder(file).refused("tokens[0]: expected a token of this file, found '<s>'");
}

TEST_CASE("added tokens: those that only files beside name are found, with the ids of AutoTokenizer") {
  const TokenId x = id_in(gpt2_json(), "x"), y = id_in(gpt2_json(), "y");
  const json decoder = {{"700", {{"content", "<|im_start|>"}, {"special", true}, {"normalized", false}}}};
  CHECK(Folder(gpt2_json())
            .add("tokenizer_config.json", {{"added_tokens_decoder", decoder}})
            .ids("x<|im_start|>y") == Ids{x, 700, y});
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"})
    CHECK(Folder(gpt2_json())
              .add("tokenizer_config.json", {{key, {"<|im_end|>", "<u>"}}})
              .ids("<u>x<|im_end|>") == Ids{701, x, 700});
  for (const char* key : {"pad_token", "unk_token", "bos_token", "sep_token", "cls_token", "mask_token"}) {
    CHECK(Folder(gpt2_json()).add("tokenizer_config.json", {{key, "<pad>"}}).ids("x<pad>") == Ids{x, 700});
    CHECK(Folder(gpt2_json()).add("special_tokens_map.json", {{key, {{"content", "<pad>"}}}}).ids("x<pad>") ==
          Ids{x, 700});
  }
  CHECK(Folder(gpt2_json()).add("added_tokens.json", {{"<t>", 700}, {"<u>", 701}}).ids("<u>x<t>") ==
        Ids{701, x, 700});
  // A token of the vocabulary that has a role is found in text, too.
  const TokenId he = id_in(gpt2_json(), "he");
  CHECK(Folder(gpt2_json()).add("tokenizer_config.json", {{"pad_token", "he"}}).ids("xhex") == Ids{x, he, x});
}

TEST_CASE("added tokens: the order and the flags of transformers") {
  const TokenId x = id_in(gpt2_json(), "x");
  const auto ids = [](const json& config, const std::string& text) {
    return Folder(gpt2_json()).add("tokenizer_config.json", config).ids(text);
  };
  // Tokens with ids come first, then roles, roles of this model alone, and further ones.
  CHECK(ids({{"additional_special_tokens", {"<z>"}}, {"image_token", "<img>"}, {"pad_token", "<pad>"}},
            "<img><pad><z>") == Ids{701, 700, 702});
  CHECK(ids({{"pad_token", "<p>"}, {"added_tokens_decoder", {{"700", {{"content", "<a>"}}}}}}, "<a><p>") ==
        Ids{700, 701});
  CHECK(ids({{"extra_special_tokens", {{"image_token", "<img>"}}}}, "x<img>") == Ids{x, 700});
  // The newer key counts.
  CHECK(ids({{"extra_special_tokens", {"<q>"}}, {"additional_special_tokens", {"<z>"}}}, "<q>") == Ids{700});
  // White space before a token belongs to it if its entry says so, also where it has a role.
  const json entry = {{"content", "<a>"}, {"lstrip", true}, {"special", true}};
  CHECK(ids({{"added_tokens_decoder", {{"700", entry}}}}, "x  <a>") == Ids{x, 700});
  CHECK(ids({{"added_tokens_decoder", {{"700", entry}}}, {"pad_token", "<a>"}}, "x  <a>") == Ids{x, 700});
}

TEST_CASE("added tokens: a role leaves the flags of an added token as they are") {
  json file = with_added({token(700, "New York")});
  file["added_tokens"].back()["single_word"] = true;
  for (const json& config : {json{{"pad_token", "New York"}}, json{{"extra_special_tokens", {"New York"}}},
                             json{{"pad_token", "New York"}, {"added_tokens_decoder", json::object()}}}) {
    Folder folder(file);
    folder.add("tokenizer_config.json", config);
    CHECK(folder.ids("New York") == Ids{700});
    CHECK(folder.ids("xNew York").size() > 2);
    CHECK(folder.open()->content_hash() == Folder(file).open()->content_hash());
  }
}

TEST_CASE("merges: of a pair that is listed twice the last counts") {
  json file = gpt2_json();
  json& merges = file["model"]["merges"];
  merges.push_back({"h", "e"});  // the third, and now the last one
  CHECK(Folder(file).ids("the the hen there") == Ids{397, 69, 308, 69, 221, 72, 272, 308, 69, 262});
}

TEST_CASE("added tokens: two files that give a role to two tokens are refused") {
  Folder(gpt2_json())
      .add("tokenizer_config.json", {{"bos_token", "<a>"}})
      .add("special_tokens_map.json", {{"bos_token", "<b>"}})
      .refused(
          "special_tokens_map.json: bos_token: expected '<a>', as in tokenizer_config.json, found \"<b>\"");
  const auto map = [](const json& config) {
    return Folder(gpt2_json())
        .add("tokenizer_config.json", config)
        .add("special_tokens_map.json", {{"bos_token", "x"}, {"eos_token", "y"}})
        .open();
  };
  CHECK(map(json::object())->end_of_document() == id_in(gpt2_json(), "y"));
  CHECK(map(json::object())->beginning() == id_in(gpt2_json(), "x"));
  // Beside added_tokens_decoder the file is not read.
  CHECK(map({{"added_tokens_decoder", json::object()}})->end_of_document() == 0);
}

TEST_CASE("added tokens: ids that the files beside state are compared") {
  Folder(gpt2_json())
      .add("tokenizer_config.json", {{"added_tokens_decoder", {{"710", {{"content", "<a>"}}}}}})
      .refused("tokenizer_config.json: added_tokens_decoder.710: expected the id 700 for '<a>'");
  Folder(gpt2_json())
      .add("tokenizer_config.json", {{"added_tokens_decoder", {{"5", {{"content", "<|endoftext|>"}}}}}})
      .refused(
          "added_tokens_decoder.5: expected the id 0 for '<|endoftext|>', which the library gives, found 5");
  Folder(gpt2_json())
      .add("added_tokens.json", {{"<t>", 5}})
      .refused("added_tokens.json: '<t>': expected the id 700");
  Folder(gpt2_json())
      .add("tokenizer_config.json", {{"added_tokens_decoder", {{"x", {{"content", "<a>"}}}}}})
      .refused("added_tokens_decoder.x: expected an id of 0");
  Folder(gpt2_json())
      .add("tokenizer_config.json", {{"pad_token", 5}})
      .refused("pad_token: expected the text of a token");
  Folder(gpt2_json())
      .add("tokenizer_config.json", {{"eos_token", "<|none|>"}})
      .refused("eos_token: expected a token of tokenizer.json, found '<|none|>'");
}

TEST_CASE("added tokens: those of the files beside are part of the hash") {
  const std::uint64_t plain = Folder(gpt2_json()).open()->content_hash();
  CHECK(Folder(gpt2_json())
            .add("tokenizer_config.json", {{"eos_token", "<|endoftext|>"}})
            .open()
            ->content_hash() == plain);
  CHECK(Folder(gpt2_json()).add("tokenizer_config.json", {{"pad_token", "<pad>"}}).open()->content_hash() !=
        plain);
}

TEST_CASE("tokenizer: the token before a text is its first, else bos_token") {
  const auto beginning = [](const json& config) {
    return Folder(with_added({token(700, "<a>")})).add("tokenizer_config.json", config).open()->beginning();
  };
  CHECK(beginning(json::object()) == std::nullopt);
  CHECK(beginning({{"eos_token", "<a>"}}) == std::nullopt);
  CHECK(beginning({{"bos_token", "<a>"}, {"eos_token", "<|endoftext|>"}}) == 700);
  CHECK(beginning({{"bos_token", {{"content", "<|endoftext|>"}}}}) == 0);
  CHECK(read_tokenizer_json(tokenizer_tests() / "data" / "llama3.json")->beginning() == 700);
}

TEST_CASE("byte fallback: character by character, as in the library tokenizers") {
  json file = json::parse(read_file(tokenizer_tests() / "data" / "llama2.json"));
  const auto check = [&](const std::string& text, const Ids& expected) {
    INFO(text);
    CHECK(Folder(file).ids(text) == expected);
  };
  check("中赫", {369, 231, 187, 176, 235, 184, 174});
  // Without <0xE8> a character that begins with it is unknown, and the others are written as bytes as before.
  file["model"]["vocab"].erase("<0xE8>");
  check("中", {369, 231, 187, 176});
  check("赫", {369, 0});
  check("é赫", {369, 198, 172, 0});
  check("中a赫", {369, 231, 187, 176, 319, 0});
  check("赫赫a", {369, 0, 319});
  // The library puts the unknown token down at the next character that is known.
  check("中赫中", {369, 231, 187, 176, 231, 187, 176, 0});
  check("赫中a", {369, 231, 187, 176, 0, 319});
  file["model"]["fuse_unk"] = false;
  check("赫赫a", {369, 0, 0, 319});
  check("赫中a", {369, 231, 187, 176, 0, 319});
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    file["model"]["vocab"].erase(name);
  }
  check("中a", {369, 0, 319});
}
