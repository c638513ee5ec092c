#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tokenizers/golden.h"
#include "train/tokenizers/marian_vocabulary.h"
#include "train/tokenizers/open_tokenizer.h"

using namespace moh;
using namespace moh::test;
using Catch::Contains;
using nlohmann::json;

namespace {

const json& golden_marian() {
  static const json contents = golden_file("golden_marian.json");
  return contents;
}

/// Writes the folder of a case.
void write_case(const TemporaryFolder& folder, const std::string& name) {
  const json& of = golden_marian()["of"][name];
  for (const char* side : {"source", "target"})
    std::filesystem::copy(tokenizer_tests() / "data" / (of[side].get<std::string>() + ".model"),
                          folder / (std::string(side) + ".spm"));
  for (const auto& [file, contents] : of["files"].items()) write_file(folder / file, contents.dump());
}

/// A folder of the case "joint", or "separate", of which a test changes a file.
class MarianFolder {
 public:
  explicit MarianFolder(const std::string& name = "joint") : files_(golden_marian()["of"][name]["files"]) {
    write_case(folder_, name);
  }

  MarianFolder& set(const std::string& file, const std::string& key, const json& value) {
    files_[file][key] = value;
    return write(file, files_[file].dump());
  }
  MarianFolder& erase(const std::string& file, const std::string& key) {
    files_[file].erase(key);
    return write(file, files_[file].dump());
  }
  MarianFolder& write(const std::string& file, const std::string& contents) {
    write_file(folder_ / file, contents);
    return *this;
  }
  MarianFolder& remove(const std::string& file) {
    std::filesystem::remove(folder_ / file);
    return *this;
  }
  std::unique_ptr<const Tokenizer> open() const { return open_tokenizer("test", folder_.path()); }
  void refused(const std::string& message) const {
    CHECK_THROWS_AS(open(), DataError);
    CHECK_THROWS_WITH(open(), Contains(message));
  }

 private:
  TemporaryFolder folder_;
  json files_;
};

/// With the end, as transformers has it.
std::vector<TokenId> ids_with_end(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids = ids_of(tokenizer, text);
  ids.push_back(*tokenizer.end_of_document());
  return ids;
}

/// The text as both programs have it: without white space of Unicode at the ends, and with one U+FFFD for the
/// bytes of a broken character, where sentencepiece writes one for each byte.
std::string comparable(std::string text) {
  const std::string mark = "\uFFFD";
  for (std::size_t at = text.find(mark + mark); at != std::string::npos; at = text.find(mark + mark, at))
    text.erase(at, mark.size());
  std::string_view rest = text;
  const auto take = [&](std::string_view space) {
    const bool begins = rest.starts_with(space), ends = !begins && rest.ends_with(space);
    if (begins) rest.remove_prefix(space.size());
    if (ends) rest.remove_suffix(space.size());
    return begins || ends;
  };
  while (take(" ") || take("\t") || take("\n") || take("\r") || take("\u00a0") || take("\u1680") ||
         take("\u3000")) {
  }
  return std::string(rest);
}

}  // namespace

TEST_CASE("Marian: ids of both languages, and texts, are those of transformers") {
  for (const auto& [name, expected] : golden_marian()["of"].items()) {
    const TemporaryFolder folder;
    write_case(folder, name);
    const auto source = open_tokenizer("test", folder.path()), target = source->target_side();
    REQUIRE(target != nullptr);
    const json& texts = golden_marian()["texts"];
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const auto text = texts[i].get<std::string>();
      INFO(name << ", text " << i << ": " << text);
      CHECK(ids_with_end(*source, text) == expected["source_ids"][i].get<std::vector<TokenId>>());
      const auto ids = expected["target_ids"][i].get<std::vector<TokenId>>();
      CHECK(ids_with_end(*target, text) == ids);
      std::string decoded;
      for (const TokenId id : ids) decoded += target->token_bytes(id);
      CHECK(comparable(target->cleaned_up(with_valid_utf8(decoded))) ==
            comparable(expected["decoded"][i].get<std::string>()));
    }
  }
}

TEST_CASE("Marian: a tokenizer is made again of its files, and has one hash however they are written") {
  for (const auto& [name, of] : golden_marian()["of"].items()) {
    const TemporaryFolder folder, copy;
    write_case(folder, name);
    const auto original = open_tokenizer("test", folder / "vocab.json");
    CHECK(original->name() == "vocab.json");
    for (const TokenizerFile& file : original->files()) {
      const bool is_vocabulary = file.name.ends_with("vocab.json");
      write_file(copy / file.name, is_vocabulary ? json::parse(file.contents).dump(2) : file.contents);
    }
    const auto again = open_tokenizer("test", copy.path());
    CHECK(again->content_hash() == original->content_hash());
    CHECK(again->vocab_size() == original->vocab_size());
    CHECK(again->target_side()->vocab_size() == original->target_side()->vocab_size());
    CHECK(again->files().size() == original->files().size());
  }
}

TEST_CASE("Marian: what determines ids changes the hash") {
  const std::uint64_t hash = MarianFolder().open()->content_hash();
  CHECK(MarianFolder().set("vocab.json", "new token", 861).open()->content_hash() != hash);
  CHECK(MarianFolder().set("tokenizer_config.json", "mask_token", "\u2603\u2603").open()->content_hash() !=
        hash);
  const std::string other = read_file(tokenizer_tests() / "data/unigram.model");
  CHECK(MarianFolder().write("source.spm", other).open()->content_hash() != hash);
  CHECK(MarianFolder().write("target.spm", other).open()->content_hash() != hash);
  CHECK(MarianFolder().set("tokenizer_config.json", "source_lang", "nl").open()->content_hash() == hash);
  // As transformers writes it when it saves what it read.
  const json pad = {{"content", "<pad>"}, {"lstrip", false}, {"normalized", false}, {"special", true}};
  CHECK(MarianFolder()
            .set("tokenizer_config.json", "added_tokens_decoder", {{"860", pad}})
            .open()
            ->content_hash() == hash);
}

TEST_CASE("Marian: a tokenizer by itself is that of the source language") {
  const auto source = MarianFolder().open();
  CHECK(source->end_of_document() == 0);
  CHECK(source->vocab_size() == 861);
  CHECK(source->special_text(860) == "<pad>");
  CHECK(source->token_bytes(860).empty());
  CHECK(source->drops_leading_space());
  CHECK_THROWS_AS(source->token_bytes(861), ValueError);
  std::vector<TokenId> whole = ids_of(*source, "the head of a layer"), parts = ids_of(*source, "the head");
  source->encode_rest(" of a layer", parts);
  CHECK(parts == whole);
}

TEST_CASE("Marian: its files count before a tokenizer.json, which transformers does not read beside them") {
  MarianFolder().write("tokenizer.json", "{}").open();
  MarianFolder()
      .remove("target.spm")
      .write("tokenizer.json", "{}")
      .refused("target.spm: expected a readable file");
}

TEST_CASE("Marian: files that are missing are named") {
  MarianFolder().remove("vocab.json").refused("vocab.json: expected a readable file");
  MarianFolder().remove("source.spm").refused("source.spm: expected a readable file");
  MarianFolder().remove("target.spm").refused("target.spm: expected a readable file");
  MarianFolder("separate").remove("target_vocab.json").refused("target_vocab.json: expected a readable file");
  MarianFolder()
      .write("source.spm", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
      .refused("source.spm: expected the file, found a pointer of Git LFS");
}

TEST_CASE("Marian: vocabularies that are no numbering of tokens are refused") {
  MarianFolder()
      .set("vocab.json", "a b", -1)
      .refused("'a b': expected an id of 0 ... 68984 for 862 tokens, found -1");
  MarianFolder().set("vocab.json", "a b", 68985).refused("for 862 tokens, found 68985");
  MarianFolder().set("vocab.json", "a b", 1e300).refused("'a b': expected an id of 0 ...");
  MarianFolder().set("vocab.json", "a b", "5").refused("'a b': expected an id of 0 ...");
  MarianFolder()
      .set("vocab.json", "~", 0)
      .refused(
          "'~': expected an id that no other token has, found 0, "
          "that of '</s>'");
  MarianFolder().write("vocab.json", R"({"</s>": 0, "</s>": 1})").refused("</s>");
  MarianFolder().write("vocab.json", R"({"</s>": 0)").refused("vocab.json: ");
  for (const char* token : {"</s>", "<unk>", "<pad>"})
    MarianFolder()
        .erase("vocab.json", token)
        .refused(std::string("vocab.json: expected the token '") + token + "', found none");
}

TEST_CASE("Marian: two vocabularies have to agree on the tokens that both need") {
  MarianFolder("separate")
      .erase("target_vocab.json", "<what>")
      .refused("target_vocab.json: expected the token '<what>', found none");
  MarianFolder("separate")
      .set("target_vocab.json", "</s>", 900)
      .refused("target_vocab.json: '</s>': expected 0, as in vocab.json, found 900");
  MarianFolder("separate").set("tokenizer_config.json", "separate_vocabs", 1).refused("true or false");
  const auto source = MarianFolder("separate").set("target_vocab.json", "<pad>", 900).open();
  CHECK(source->vocab_size() == 843);
  CHECK(source->target_side()->vocab_size() == 901);
  CHECK(source->target_side()->special_text(900) == "<pad>");
}

TEST_CASE("Marian: tokens that files beside the vocabulary add") {
  const auto added =
      MarianFolder().set("tokenizer_config.json", "additional_special_tokens", {"<new>"}).open();
  CHECK(added->vocab_size() == 862);
  CHECK(ids_of(*added, "<new>") == std::vector<TokenId>{861});
  MarianFolder().set("tokenizer_config.json", "eos_token", "<end>").refused("expected the token '<end>'");
  MarianFolder()
      .set("tokenizer_config.json", "added_tokens_decoder", {{"5", {{"content", "<pad>"}}}})
      .refused("added_tokens_decoder.5: expected the id 860 for '<pad>'");
}

TEST_CASE("Marian: a vocabulary is told from a tokenizer.json by its first member") {
  CHECK(looks_like_vocabulary(R"({"</s>": 0)"));
  CHECK(looks_like_vocabulary(" {\n \"a\\\"b\" :\t-1"));
  CHECK_FALSE(looks_like_vocabulary(R"({"version": "1.0")"));
  CHECK_FALSE(looks_like_vocabulary(R"({"version)"));
  CHECK_FALSE(looks_like_vocabulary(R"({"version":)"));
  CHECK_FALSE(looks_like_vocabulary("{}"));
  CHECK_FALSE(looks_like_vocabulary(""));
}
