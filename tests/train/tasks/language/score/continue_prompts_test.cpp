#include "train/tasks/language/score/continue_prompts.h"

#include <catch2/catch.hpp>
#include <set>

#include "core/error.h"
#include "models/llm/llama.h"
#include "train/tasks/language/generate_text.h"

using namespace moh;

namespace {

constexpr std::int64_t kPositions = 64;

/// Over bytes, with a vocabulary that is padded; large first values, so that texts vary.
std::unique_ptr<Llama> model_of(RouterKind router) {
  LlamaConfig config{.vocab_size = 260,
                     .layers = 2,
                     .hidden = 16,
                     .intermediate = 24,
                     .heads = 4,
                     .kv_heads = 2,
                     .head_dim = 4,
                     .max_positions = kPositions};
  config.init_std = 0.4;
  if (router != RouterKind::kNone) config.moh = {.router = router, .num_shared = 1, .top_k = 2};
  auto model = std::make_unique<Llama>(config, DType::kFloat32);
  model->initialise(5);
  return model;
}

std::vector<std::string> some_prompts() {
  std::vector<std::string> prompts;
  const std::string examples = "Question: 1 + 1\nAnswer: 2\n\nQuestion: ";
  for (int i = 0; i < 12; ++i) {
    prompts.push_back((i % 2 == 0 ? examples : "") + std::to_string(i * 17) + " and");
    prompts.push_back("Prompt " + std::string(static_cast<std::size_t>(i % 4), 'x'));
  }
  return prompts;
}

std::vector<std::vector<TokenId>> encoded(const std::vector<std::string>& prompts) {
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& prompt : prompts) ByteTokenizer().encode(prompt, ids.emplace_back());
  return ids;
}

/// What the model writes, one prompt after the other.
std::string reference(const Llama& model, const std::string& prompt, const ContinueOptions& options) {
  GenerateOptions one;
  one.tokens = options.tokens;
  one.pick.temperature = 0;
  one.stop = options.stop;
  one.ends = options.ends;
  std::string text;
  generate_text(model, ByteTokenizer(), prompt, one, [&](std::string_view piece) { text += piece; });
  return text;
}

/// Two printable characters, one after the other and not at its beginning, of one of the texts.
std::string ascii_pair(const std::vector<std::string>& texts) {
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  for (const std::string& text : texts) {
    for (std::size_t i = 1; i + 1 < text.size(); ++i)
      if (printable(text[i]) && printable(text[i + 1])) return text.substr(i, 2);
  }
  return "";
}

}  // namespace

TEST_CASE("generate: prompts in batches are continued as one after the other") {
  const std::vector<std::string> prompts = some_prompts();
  for (const RouterKind router : {RouterKind::kNone, RouterKind::kLearned}) {
    const auto model = model_of(router);
    std::vector<std::string> whole;
    for (const std::string& prompt : prompts) whole.push_back(reference(*model, prompt, {.tokens = 12}));
    CHECK(std::set<std::string>(whole.begin(), whole.end()).size() > 6);  // else this test says little
    // A text and a token that occur in what the model writes.
    const std::string stop = ascii_pair(whole);
    REQUIRE(stop.size() == 2);
    const TokenId end = static_cast<unsigned char>(stop[1]);
    for (const ContinueOptions& options :
         {ContinueOptions{.tokens = 12}, ContinueOptions{.tokens = 1}, ContinueOptions{12, {stop, "zz"}, {}},
          ContinueOptions{12, {}, {end}}}) {
      for (const ScoreLimits& limits :
           {ScoreLimits{}, ScoreLimits{.batch_tokens = 1}, ScoreLimits{40, 300, 8}}) {
        const auto found = continue_prompts(*model, ByteTokenizer(), encoded(prompts), options, limits);
        REQUIRE(found.has_value());
        REQUIRE(found->size() == prompts.size());
        for (std::size_t i = 0; i < prompts.size(); ++i) {
          Utf8Stream shown;  // what is no character is shown alike
          const std::string text = shown.push((*found)[i]) + shown.finish();
          CHECK(text == reference(*model, prompts[i], options));
        }
      }
    }
  }
}

TEST_CASE("generate: a long prompt loses its beginning, so that there is room for the answer") {
  const auto model = model_of(RouterKind::kNone);
  std::string prompt;
  for (int i = 0; i < 50; ++i) prompt += std::to_string(i);
  const std::string end = prompt.substr(prompt.size() - (kPositions - 10));
  const auto found = continue_prompts(*model, ByteTokenizer(), encoded({prompt, end}), {.tokens = 10});
  CHECK((*found)[0] == (*found)[1]);
}

TEST_CASE("generate: batches stop when asked to, and refuse what has no room") {
  const auto model = model_of(RouterKind::kNone);
  int calls = 0;
  const auto stop = [&](const ScoreProgress& progress) {
    CHECK(progress.done <= progress.total);
    return ++calls == 5;
  };
  CHECK_FALSE(continue_prompts(*model, ByteTokenizer(), encoded(some_prompts()), {.tokens = 30}, {}, stop));
  CHECK(calls == 5);
  const auto run = [&](std::int64_t tokens) {
    continue_prompts(*model, ByteTokenizer(), encoded({"x"}), {.tokens = tokens});
  };
  CHECK_THROWS_WITH(run(64), Catch::Contains("new tokens: expected 1 to less than the model's 64 positions"));
  CHECK_THROWS_AS(run(0), ValueError);
  CHECK_THROWS_AS(continue_prompts(*model, ByteTokenizer(), {{}}, {.tokens = 3}), ValueError);
  CHECK(continue_prompts(*model, ByteTokenizer(), {}, {.tokens = 3})->empty());
}
