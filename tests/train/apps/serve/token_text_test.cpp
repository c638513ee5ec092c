#include "train/apps/serve/token_text.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "train/apps/serve/completion_json.h"
#include "train/base/http/request_error.h"

using namespace moh;

namespace {

/// Two ids with one text, one that is part of a character, one that is "<s>", one that ends a document.
class SmallVocabulary final : public Tokenizer {
 public:
  std::string_view name() const override { return "small"; }
  std::int64_t vocab_size() const override { return 6; }
  std::uint64_t content_hash() const override { return 1; }
  std::optional<TokenId> end_of_document() const override { return 5; }
  const std::vector<TokenId>& sequence_start() const override { return start_; }
  const std::vector<TokenizerFile>& files() const override { return files_; }
  bool drops_leading_space() const override { return true; }
  void encode(std::string_view text, std::vector<TokenId>& ids) const override {
    ids.insert(ids.end(), text.size(), 0);
  }
  std::string_view token_bytes(TokenId id) const override {
    constexpr std::string_view kBytes[] = {"a", "a", "\xE4\xBD", " b", "", ""};
    return kBytes[id];
  }
  std::string_view special_text(TokenId id) const override { return id == 4 ? "<s>" : id == 5 ? "</s>" : ""; }

 private:
  std::vector<TokenId> start_{4};
  std::vector<TokenizerFile> files_{
      {"tokenizer_config.json", R"({"pad_token": {"content": "<pad>"}, "chat_template": "old"})"},
      {"chat_template.jinja", "new"}};
};

}  // namespace

TEST_CASE("serve: special tokens have a text for clients") {
  const SmallVocabulary tokenizer;
  const TokenText text(tokenizer);
  CHECK(text.encode("prompt", "aa", true) == std::vector<TokenId>{4, 0, 0});
  CHECK(text.encode("prompt", "aa", false) == std::vector<TokenId>{0, 0});
  CHECK(text.encode("prompt", "</s>", false) == std::vector<TokenId>{5});
  CHECK(text.encode("prompt", "<s>", false) == std::vector<TokenId>{4});
  CHECK(text.encode("prompt", "", false).empty());
  CHECK(text.decode({4, 0, 3, 5}) == "<s>a b</s>");
  CHECK(text.decode({3, 0}) == "ba");  // the space at the beginning is not part of the text
  CHECK(text.decode({2}) == "\uFFFD");
  CHECK_THROWS_WITH(text.require_known("tokens", {0, 6}), "tokens: expected token ids from 0 to 5, found 6");
}

TEST_CASE("serve: tokens have names") {
  const SmallVocabulary tokenizer;
  const TokenText text(tokenizer);
  CHECK(text.name(0) == "a");
  CHECK(text.name(2) == "bytes:\\xe4\\xbd");
  CHECK(text.name(5) == "</s>");
  CHECK(text.name(77) == "token_id:77");  // of a padded vocabulary
}

TEST_CASE("serve: ids of one text keep entries of their own among the most probable ones") {
  const SmallVocabulary tokenizer;
  const TokenText text(tokenizer);
  CompletionRequest request;
  request.prompts = {std::vector<TokenId>{4, 0}};
  request.logprobs = 2;
  request.echo = true;
  CompletionJson json(request, {{4, 0}}, "moh", text);
  json.add({.choice = 0,
            .text = "a",
            .scores = {{.id = 4, .logprob = {}, .top = {}},
                       {.id = 0, .logprob = -1.5F, .top = {{1, -0.5F}, {0, -1.5F}}},
                       {.id = 1, .logprob = -0.25F, .top = {{1, -0.25F}, {0, -2.0F}}}},
            .tokens = 1,
            .finish = Finish::kLength});
  const auto whole = nlohmann::json::parse(json.whole());
  const auto& choice = whole["choices"][0];
  CHECK(choice["text"] == "<s>aa");
  CHECK(choice["finish_reason"] == "length");
  const auto& logprobs = choice["logprobs"];
  CHECK(logprobs["tokens"] == nlohmann::json({"<s>", "a", "a"}));
  CHECK(logprobs["token_logprobs"] == nlohmann::json({nullptr, -1.5, -0.25}));
  CHECK(logprobs["top_logprobs"][0].is_null());
  CHECK(logprobs["top_logprobs"][1] == nlohmann::json({{"a", -0.5}, {"token_id:0", -1.5}}));
  CHECK(logprobs["top_logprobs"][2] == nlohmann::json({{"a", -0.25}, {"token_id:0", -2.0}}));
  CHECK(logprobs["text_offset"] == nlohmann::json({0, 3, 4}));
  CHECK(whole["usage"] ==
        nlohmann::json({{"prompt_tokens", 2}, {"completion_tokens", 1}, {"total_tokens", 3}}));
}

TEST_CASE("serve: offsets are those of the text that is sent") {
  const SmallVocabulary small;
  const ByteTokenizer bytes;
  struct Case {
    const Tokenizer& tokenizer;
    std::vector<TokenId> prompt;
    std::string text;
    std::vector<int> offsets;
  };
  for (const Case& each :
       {Case{bytes, {65, 133, 66}, "A\uFFFDB", {0, 1, 2}},
        Case{bytes, {0x80, 0xBF, 65}, "\uFFFD\uFFFDA", {0, 1, 2}},
        Case{bytes, {0xFF, 0xC0, 65}, "\uFFFD\uFFFDA", {0, 1, 2}},
        Case{bytes, {0xE4, 0xBD, 65}, "\uFFFDA", {0, 1, 1}},           // breaks off
        Case{bytes, {0xE4, 0xBD, 0xA0, 65}, "\u4F60A", {0, 1, 1, 1}},  // a whole character
        Case{bytes, {0xF0, 0x80, 65}, "\uFFFD\uFFFDA", {0, 1, 2}}, Case{bytes, {65, 0xE4}, "A\uFFFD", {0, 1}},
        Case{small, {2, 0, 3}, "\uFFFDa b", {0, 1, 2}},
        Case{small, {3, 0}, "ba", {0, 1}},  // no space at the beginning
        Case{small, {4, 3, 0}, "<s> ba", {0, 3, 5}}}) {
    const TokenText text(each.tokenizer);
    CompletionRequest request;
    request.prompts = {each.prompt};
    request.logprobs = 0;
    request.echo = true;
    CompletionJson json(request, {each.prompt}, "moh", text);
    TextPiece piece{.choice = 0, .text = "a", .scores = {}, .tokens = 1, .finish = Finish::kLength};
    for (const TokenId id : each.prompt) piece.scores.push_back({.id = id, .logprob = {}, .top = {}});
    const TokenId generated = &each.tokenizer == &bytes ? 97 : 0;
    piece.scores.push_back({.id = generated, .logprob = {}, .top = {}});
    json.add(piece);
    const auto choice = nlohmann::json::parse(json.whole())["choices"][0];
    INFO(each.text);
    CHECK(choice["text"] == each.text + "a");
    std::vector<int> offsets = each.offsets;
    offsets.push_back(static_cast<int>(std::ranges::count_if(
        each.text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; })));
    CHECK(choice["logprobs"]["text_offset"] == offsets);
  }
}

TEST_CASE("serve: a token that is not among the most probable ones is listed, too") {
  const SmallVocabulary tokenizer;
  const TokenText text(tokenizer);
  CompletionRequest request;
  request.prompts = {std::string("a")};
  request.logprobs = 1;
  CompletionJson json(request, {{4, 0}}, "moh", text);
  const std::string chunk = json.chunk(
      {.choice = 0, .text = "a", .scores = {{3, -4.0F, {{1, -0.125F}}}}, .tokens = 1, .finish = {}});
  const auto logprobs = nlohmann::json::parse(chunk)["choices"][0]["logprobs"];
  CHECK(logprobs["top_logprobs"][0] == nlohmann::json({{"a", -0.125}, {" b", -4.0}}));
  CHECK(json.chunk({.choice = 0, .text = "", .scores = {}, .tokens = 1, .finish = {}}).empty());
}

TEST_CASE("serve: what is told of a tokenizer") {
  const SmallVocabulary small;
  const auto info = nlohmann::json::parse(tokenizer_info(TokenText(small)));
  CHECK(info["eos_token"] == "</s>");
  CHECK(info["bos_token"] == "<s>");
  CHECK(info["pad_token"] == "<pad>");
  CHECK(info["chat_template"] == "new");
  CHECK(info["vocab_size"] == 6);
  const ByteTokenizer bytes;
  const auto plain = nlohmann::json::parse(tokenizer_info(TokenText(bytes)));
  CHECK(plain["eos_token"] == std::string(1, '\0'));
  CHECK(plain["bos_token"].is_null());
  CHECK(TokenText(bytes).encode("prompt", plain["eos_token"].get<std::string>(), false) ==
        std::vector<TokenId>{0});
  CHECK_THROWS_AS(TokenText(bytes).encode("prompt", std::string_view("a\0", 2), false), RequestError);
}
