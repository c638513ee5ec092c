#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/apps/serve/engine.h"

namespace moh::test {

inline LlamaConfig small_served_model() {
  return {.vocab_size = 256,
          .layers = 2,
          .hidden = 32,
          .intermediate = 48,
          .heads = 4,
          .kv_heads = 2,
          .max_positions = 600,
          .moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2}};
}

/// An engine with a model of random weights.
struct Running {
  explicit Running(const EngineOptions& options = {}, const LlamaConfig& config = small_served_model())
      : model(made(config)), engine(*model, rules, options, metrics) {}

  static std::unique_ptr<Llama> made(const LlamaConfig& config) {
    auto model = std::make_unique<Llama>(config, DType::kFloat32);
    model->initialise(3);
    return model;
  }

  std::unique_ptr<Llama> model;
  ByteTokenizer tokenizer;
  TokenText text{tokenizer};
  TextRules rules{text, {}};
  ServerMetrics metrics;
  Engine engine;
};

inline TextJob job_of(std::size_t length, std::uint64_t seed, std::int64_t tokens = 10) {
  TextJob job{.prompt = {}, .max_tokens = tokens, .pick = {}, .seed = seed, .stop = {}};
  for (std::size_t i = 0; i < length; ++i)
    job.prompt.push_back(static_cast<TokenId>(1 + (i * i + seed) % 255));
  return job;
}

/// The answer to a text: `logprobs` and the `alternatives` of all tokens one after the other.
struct Text {
  std::string text;
  std::vector<float> logprobs;
  std::vector<std::pair<TokenId, float>> alternatives;
  std::int64_t tokens = 0;
  std::optional<Finish> finish;

  bool operator==(const Text&) const = default;
};

inline std::vector<Text> texts_of(Completion& completion, std::size_t count) {
  std::vector<Text> texts(count);
  while (!completion.done()) {
    const std::optional<TextPiece> piece = completion.next(0.1);
    if (!piece) continue;
    Text& text = texts.at(piece->choice);
    text.text += piece->text;
    for (const TokenLogprobs& score : piece->scores) {
      if (score.logprob) text.logprobs.push_back(*score.logprob);
      for (const TokenLogprob& other : score.top) text.alternatives.emplace_back(other.id, other.logprob);
    }
    text.tokens += piece->tokens;
    if (piece->finish) text.finish = piece->finish;
  }
  return texts;
}

}  // namespace moh::test
