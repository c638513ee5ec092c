#include "train/tasks/language/language_task.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/temporary_folder.h"

namespace moh {

namespace {

/// A model with one layer of width 16 and two heads, and seven batches to evaluate it on.
struct Fixture {
  Fixture() { model.initialise(1); }

  TemporaryFolder folder;
  std::unique_ptr<const Tokenizer> tokenizer = std::make_unique<ByteTokenizer>();
  std::string text = write_file(folder / "text.txt", std::string(7 * 16 + 1, 'a'));
  std::vector<TextSource> sources = {{.tokens = open_text(std::span(&text, 1), *tokenizer, {})}};
  Llama model{LlamaConfig{tokenizer->vocab_size(), 1, 16, 16, 2, 2, 8, 16}, Placement{DType::kFloat32}};
};

}  // namespace

TEST_CASE("tasks: an evaluation asks before each batch whether to stop, and stops there with no result") {
  const Fixture fixture;
  const auto evaluate = [&](int asks, std::int64_t max_tokens = 0) {
    int asked = 0;
    const auto stop = [&](const EvaluationProgress& progress) {
      CHECK(progress.done == 16 * asked);
      CHECK(progress.total == (max_tokens == 0 ? 7 * 16 : max_tokens));
      return ++asked == asks;
    };
    const std::optional<Evaluation> evaluation =
        evaluate_language_model(fixture.model, fixture.sources, *fixture.tokenizer, {.sequence_length = 16},
                                {.batch_size = 1, .max_tokens = max_tokens}, stop);
    return std::pair(evaluation.has_value(), asked);
  };
  for (int asks = 1; asks <= 7; ++asks) CHECK(evaluate(asks) == std::pair(false, asks));
  CHECK(evaluate(8) == std::pair(true, 7));
  CHECK(evaluate(3, 32) == std::pair(true, 2));  // two batches have as many targets
}

}  // namespace moh
