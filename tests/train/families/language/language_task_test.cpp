#include "train/families/language/language_task.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/support/language_runs.h"
#include "tests/support/temporary_folder.h"

namespace moh {

namespace {

/// A model with one layer of width 16 and two heads, and seven batches to evaluate it on.
struct LanguageFixture {
  LanguageFixture() { model.initialise(1); }

  TemporaryFolder folder;
  std::unique_ptr<const Tokenizer> tokenizer = std::make_unique<ByteTokenizer>();
  std::string text = write_file(folder / "text.txt", std::string(7 * 16 + 1, 'a'));
  std::vector<TextSource> sources = {{.tokens = open_text(std::span(&text, 1), *tokenizer, {})}};
  Llama model{LlamaConfig{tokenizer->vocab_size(), 1, 16, 16, 2, 2, 8, 16}, Placement{DType::kFloat32}};
};

/// Documents of a prompt of seven tokens and a response of five, which the end of the text follows.
TokenSourcePtr prompts_and_responses() {
  std::vector<TokenId> ids;
  for (TokenId document = 0; document < 12; ++document) {
    for (TokenId t = 0; t < 7; ++t) ids.push_back(marked('a' + (document * 5 + t * 3) % 26));
    for (TokenId t = 0; t < 5; ++t) ids.push_back('A' + (document * 7 + t * 11) % 26);
    ids.push_back(ByteTokenizer::kEndOfDocument);
  }
  return tokens_in_memory(ids, 256);
}

/// A run of two sequences of 32 tokens, of a dense model.
RunConfig run_of_two() {
  RunConfig run = default_language_run();
  model_of(run) = {.layers = 1, .hidden = 16, .intermediate = 16, .heads = 2, .max_positions = 32};
  language_run(run).data.sequence_length = 32;
  run.train.batch_size = 2;
  return run;
}

std::unique_ptr<Llama> model_with_seed(const RunConfig& run, std::uint64_t seed) {
  auto model = std::make_unique<Llama>(model_of(run), Placement{DType::kFloat32});
  model->initialise(seed);
  return model;
}

std::shared_ptr<const LanguageData> data_of(const TokenSourcePtr& tokens) {
  auto data = std::make_shared<LanguageData>();
  data->tokenizer = std::make_unique<ByteTokenizer>();
  data->train = {{.tokens = tokens}};
  return data;
}

/// The first micro-batch of a run.
TokenBatch first_batch(const RunConfig& run, const LanguageData& data) {
  return TrainingBatches(data.train, *data.tokenizer, batch_options(language_run(run)), run.random_seed())
      .at(0, run.train.batch_size);
}

/// Log-probabilities of a row of logits.
std::vector<double> log_softmax(const Tensor& logits, std::int64_t row) {
  const std::int64_t size = logits.dim(-1);
  const float* z = logits.data<float>() + row * size;
  double sum = 0;
  for (std::int64_t j = 0; j < size; ++j) sum += std::exp(static_cast<double>(z[j]));
  std::vector<double> log_p;
  for (std::int64_t j = 0; j < size; ++j) log_p.push_back(static_cast<double>(z[j]) - std::log(sum));
  return log_p;
}

}  // namespace

TEST_CASE("tasks: the loss of prompts and responses is the mean over the tokens of responses") {
  const RunConfig run = run_of_two();
  const auto data = data_of(prompts_and_responses());
  LanguageTask task(run, data, model_with_seed(run, 1));
  task.seek(0, {});
  TrainingStep step = task.begin_step(1);
  const StepSize size = step.size();
  const TokenBatch batch = first_batch(run, *data);
  CHECK(size.items == 64);
  CHECK(size.targets == batch.num_targets);
  step.set_targets(size.targets);
  Generator generator(1, 0);
  const double loss = step.load(0).loss(generator).task_loss.item();

  const std::unique_ptr<Llama> model = model_with_seed(run, 1);
  const Variable logits(model->forward(batch.tokens).logits.value().clone(), /*requires_grad=*/true);
  double sum = 0;
  std::int64_t responses = 0;
  std::vector<bool> is_prompt;
  for (std::int64_t row = 0; row < 64; ++row) {
    // The kind of a token follows from the tokens alone: a response is of capital letters, and the end of a
    // text is one of it.
    const TokenBatch& b = batch;
    const std::int64_t start =
        TrainingBatches(data->train, *data->tokenizer, {.sequence_length = 32}, run.random_seed())
            .sampler()
            .window_start(row / 32);
    std::vector<TokenId> next(1);
    data->train[0].tokens->copy(start + row % 32 + 1, next);
    is_prompt.push_back(next[0] >= 'a');
    CHECK((b.targets.data<std::int64_t>()[row] == kIgnoredTarget) == is_prompt.back());
    if (is_prompt.back()) continue;
    sum -= log_softmax(logits.value(), row)[static_cast<std::size_t>(next[0])];
    ++responses;
  }
  CHECK(responses == size.targets);
  CHECK(responses < 40);
  CHECK(loss == Approx(sum / static_cast<double>(responses)).epsilon(1e-5));

  // No gradient comes from a prompt, not even a rounding error.
  cross_entropy(logits, batch.targets, {.normalizer = static_cast<double>(responses)}).backward();
  for (std::size_t row = 0; row < is_prompt.size(); ++row) {
    double largest = 0;
    for (std::int64_t j = 0; j < 256; ++j) {
      const float slope = logits.grad().data<float>()[static_cast<std::int64_t>(row) * 256 + j];
      largest = std::max(largest, std::abs(static_cast<double>(slope)));
    }
    CHECK((largest == 0) == is_prompt[row]);
  }
}

TEST_CASE("tasks: a step without a target has the loss 0, and an evaluation without one is refused") {
  const RunConfig run = run_of_two();
  std::vector<TokenId> ids(200, marked('a'));
  ids.back() = 'b';  // in no window of the first epoch's two rows
  const auto data = data_of(tokens_in_memory(ids, 256));
  LanguageTask task(run, data, model_with_seed(run, 1));
  task.seek(0, {});
  TrainingStep step = task.begin_step(1);
  CHECK(step.size().targets == 0);
  step.set_targets(0);
  Generator generator(1, 0);
  CHECK(step.load(0).loss(generator).task_loss.item() == 0);

  const auto evaluate = [&](std::int64_t max_tokens) {
    return evaluate_language_model(
        *model_with_seed(run, 1), {{"chat", data->train[0].tokens}}, *data->tokenizer,
        {.sequence_length = 16}, {.batch_size = 2, .max_tokens = max_tokens},
        [](const EvaluationProgress&) { return false; }, one_process());
  };
  CHECK_THROWS_WITH(evaluate(64),
                    Catch::Contains("held-out tokens of source chat: expected at least one target"));
  CHECK(evaluate(0)->coverage == "199 of 199 tokens, sequences of 16, 1 targets");
}

TEST_CASE("tasks: a teacher sees the documents and positions that the student sees") {
  RunConfig run = run_of_two();
  language_run(run).data.document_mask = true;
  run.init.distill.weight = 2;
  const auto data = data_of(prompts_and_responses());
  for (const bool reset : {false, true}) {
    language_run(run).data.reset_positions = reset;
    LanguageTask task(run, data, model_with_seed(run, 1));
    task.set_teacher(model_with_seed(run, 2), "hash");
    task.seek(0, {});
    TrainingStep step = task.begin_step(1);
    step.set_targets(step.size().targets);
    Generator generator(1, 0);
    const MicroBatchLoss loss = step.load(0).loss(generator);
    const double divergence = (loss.total.value().item() - loss.task_loss.item()) / 2;

    const TokenBatch batch = first_batch(run, *data);
    const auto expected = [&](bool masked) {
      const NoGrad no_grad;
      const auto logits_of = [&](std::uint64_t seed, bool with_documents) {
        const std::unique_ptr<Llama> model = model_with_seed(run, seed);
        const ForwardContext context = with_documents ? context_of(*model, batch, reset) : ForwardContext();
        return model->forward(batch.tokens, context).logits.value();
      };
      const Tensor student = logits_of(1, true), teacher = logits_of(2, masked);
      double sum = 0;
      for (std::int64_t row = 0; row < 64; ++row) {
        if (batch.targets.data<std::int64_t>()[row] == kIgnoredTarget) continue;
        const std::vector<double> log_p = log_softmax(teacher, row), log_q = log_softmax(student, row);
        for (std::size_t j = 0; j < log_p.size(); ++j) sum += std::exp(log_p[j]) * (log_p[j] - log_q[j]);
      }
      return sum / static_cast<double>(batch.num_targets);
    };
    CHECK(divergence == Approx(expected(true)).epsilon(1e-4));
    CHECK(divergence != Approx(expected(false)).epsilon(1e-3));
  }
}

TEST_CASE("tasks: the mean over sources does not depend on how much of each is evaluated") {
  const LanguageFixture fixture;
  // A long source and a short one, each of one letter, whose losses are the same in each window.
  const auto tokens = [](std::int64_t count, TokenId id) {
    return tokens_in_memory(std::vector<TokenId>(static_cast<std::size_t>(count), id), 256);
  };
  const std::vector<TextSource> sources = {{"long", tokens(64 * 16 + 1, 'a')},
                                           {"short", tokens(16 * 16 + 1, 'b')}};
  const auto evaluate = [&](std::int64_t max_tokens) {
    return *evaluate_language_model(
        fixture.model, sources, *fixture.tokenizer, {.sequence_length = 16},
        {.batch_size = 3, .max_tokens = max_tokens}, [](const EvaluationProgress&) { return false; },
        one_process());
  };
  const Evaluation all = evaluate(0);
  CHECK((all.evaluated == 80 * 16 && all.held_out == 80 * 16));
  for (const std::int64_t max_tokens : {16, 100, 256, 600}) {
    const Evaluation part = evaluate(max_tokens);
    INFO(part.coverage);
    CHECK(part.held_out == all.held_out);
    CHECK(part.evaluated < all.evaluated);
    CHECK(part.score == Approx(all.score).epsilon(1e-6));
    CHECK(part.metrics[1].second == Approx(all.metrics[1].second).epsilon(1e-6));  // bits_per_byte
  }
}

TEST_CASE("tasks: an evaluation asks before each batch whether to stop, and stops there with no result") {
  const LanguageFixture fixture;
  const auto evaluate = [&](int asks, std::int64_t max_tokens = 0) {
    int asked = 0;
    const auto stop = [&](const EvaluationProgress& progress) {
      CHECK(progress.done == 16 * asked);
      CHECK(progress.total == (max_tokens == 0 ? 7 * 16 : max_tokens));
      return ++asked == asks;
    };
    const std::optional<Evaluation> evaluation =
        evaluate_language_model(fixture.model, fixture.sources, *fixture.tokenizer, {.sequence_length = 16},
                                {.batch_size = 1, .max_tokens = max_tokens}, stop, one_process());
    return std::pair(evaluation.has_value(), asked);
  };
  for (int asks = 1; asks <= 7; ++asks) CHECK(evaluate(asks) == std::pair(false, asks));
  CHECK(evaluate(8) == std::pair(true, 7));
  CHECK(evaluate(3, 32) == std::pair(true, 2));  // two batches have as many targets
}

}  // namespace moh
