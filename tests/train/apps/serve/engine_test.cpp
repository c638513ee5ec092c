#include "train/apps/serve/engine.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/train/apps/serve/running_engine.h"
#include "train/base/http/request_error.h"

using namespace moh;
using namespace moh::test;

namespace {

int status_of(Engine& engine, std::vector<TextJob> jobs) {
  try {
    engine.submit(std::move(jobs));
  } catch (const RequestError& error) {
    return error.status();
  }
  return 200;
}

}  // namespace

TEST_CASE("serve: a text is a function of its job, whatever runs beside it") {
  std::vector<TextJob> jobs;
  // Prompts of one piece, of several, and of lengths around their ends.
  for (const std::size_t length : {1, 7, 8, 100, 511, 512, 513, 590}) {
    jobs.push_back(job_of(length, length));
    jobs.back().logprobs = 2;
    jobs.back().scores_prompt = length % 2 == 1;
  }
  Running running;
  const std::vector<Text> together = texts_of(*running.engine.submit(jobs), jobs.size());
  Running one_by_one({.max_batch = 1});
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    INFO("a prompt of " << jobs[i].prompt.size());
    const Text alone = texts_of(*one_by_one.engine.submit({jobs[i]}), 1)[0];
    CHECK(together[i].text == alone.text);
    CHECK(together[i].logprobs == alone.logprobs);
    CHECK(alone.tokens == 10);
    CHECK(alone.logprobs.size() == 10 + (jobs[i].scores_prompt ? jobs[i].prompt.size() - 1 : 0));
  }
}

TEST_CASE("serve: texts of one prompt share its cache, and are those of their seeds") {
  Running running;
  TextJob job = job_of(20, 5);
  job.n = 3;
  const std::vector<Text> texts = texts_of(*running.engine.submit({job}), 3);
  CHECK(texts[0].text != texts[1].text);
  for (std::uint64_t i = 0; i < 3; ++i) {
    TextJob single = job_of(20, 5);
    single.seed = 5 + i;
    CHECK(texts_of(*running.engine.submit({single}), 1)[0].text == texts[i].text);
  }
}

TEST_CASE("serve: texts of one prompt that do not fit together are computed in parts") {
  Running wide;
  TextJob job = job_of(20, 5);
  job.n = 7;
  const std::vector<Text> texts = texts_of(*wide.engine.submit({job, job_of(4, 2)}), 8);
  for (const EngineOptions options : {EngineOptions{.max_batch = 3}, EngineOptions{.cache_tokens = 70}}) {
    Running narrow(options);
    const std::vector<Text> parts = texts_of(*narrow.engine.submit({job, job_of(4, 2)}), 8);
    for (std::size_t i = 0; i < texts.size(); ++i) CHECK(parts[i].text == texts[i].text);
  }
}

TEST_CASE("serve: a completion wakes whoever watches it once until all is taken") {
  Completion completion({job_of(1, 1)}, 1);
  int woken = 0;
  completion.add({.choice = 0, .text = "a", .scores = {}, .tokens = 1, .finish = {}});
  completion.watch([&] { ++woken; });
  CHECK(woken == 1);
  completion.add({.choice = 0, .text = "b", .scores = {}, .tokens = 1, .finish = {}});
  CHECK(woken == 1);
  CHECK(completion.next(0)->text == "a");
  CHECK(completion.next(0)->text == "b");
  CHECK_FALSE(completion.next(0));
  completion.add({.choice = 0, .text = "", .scores = {}, .tokens = 1, .finish = Finish::kStop});
  CHECK(woken == 2);
  CHECK(completion.next(0)->finish == Finish::kStop);
  CHECK(completion.done());
}

TEST_CASE("serve: a text is counted as ended before its last piece is handed over") {
  Running server;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    texts_of(*server.engine.submit({job_of(4, seed, 3)}), 1);
    REQUIRE(server.metrics.running_texts == 0);
  }
}

TEST_CASE("serve: a token that ends a text is counted, and has no text") {
  Running running;
  TextJob job = job_of(20, 5);
  job.pick.temperature = 0;
  job.logprobs = 0;
  const Text plain = texts_of(*running.engine.submit({job}), 1)[0];
  CHECK(plain.finish == Finish::kLength);
  // The model as before, where the first token that it would generate ends a text.
  const TokenId first = [&] {
    TextJob scored = job;
    scored.logprobs = 1;
    scored.max_tokens = 1;
    return running.engine.submit({scored})->next(60)->scores.at(0).id;
  }();
  Running other;
  const TextRules rules{other.text, {first}};
  Engine engine(*other.model, rules, {}, other.metrics);
  const Text ended = texts_of(*engine.submit({job}), 1)[0];
  CHECK(ended.finish == Finish::kStop);
  CHECK(ended.text.empty());
  CHECK(ended.tokens == 1);
  CHECK(ended.logprobs.size() == 1);
}

TEST_CASE("serve: jobs that can never run are refused, others wait for their turn") {
  Running running({.max_batch = 2, .max_queue = 3, .cache_tokens = 100});
  CHECK(status_of(running.engine, {job_of(0, 1)}) == 400);
  CHECK(status_of(running.engine, {job_of(601, 1, 0)}) == 400);
  CHECK(texts_of(*running.engine.submit({job_of(91, 1, 10)}), 1)[0].finish.has_value());
  CHECK(status_of(running.engine, {job_of(92, 1, 10)}) == 400);  // 101 tokens
  TextJob three = job_of(3, 1);
  three.n = 3;
  CHECK(status_of(running.engine, {three}) == 200);  // two, then one
  CHECK(status_of(running.engine, std::vector<TextJob>(4, job_of(1, 1))) == 400);
}

TEST_CASE("serve: a queue that is full, or closed, refuses with 503") {
  Running running({.max_batch = 1, .max_queue = 1});
  const auto first = running.engine.submit({job_of(4, 1, 590)});
  int status = 200, accepted = 0;
  for (; status == 200; ++accepted) status = status_of(running.engine, {job_of(4, 2, 590)});
  CHECK(status == 503);
  CHECK(accepted <= 3);  // one runs, one waits, one was refused
  running.engine.close();
  CHECK(status_of(running.engine, {job_of(1, 1)}) == 503);
  CHECK(texts_of(*first, 1)[0].finish.has_value());  // what has begun is finished
}

TEST_CASE("serve: a cancelled completion makes room, and stopping fails what is left") {
  Running running({.max_batch = 1});
  const auto gone = running.engine.submit({job_of(4, 1, 590)});
  const auto next = running.engine.submit({job_of(4, 2, 5)});
  gone->cancel();
  CHECK(texts_of(*next, 1)[0].tokens == 5);
  const auto left = running.engine.submit({job_of(4, 1, 590), job_of(4, 2, 590)});
  running.engine.stop();
  CHECK_THROWS_WITH(texts_of(*left, 2), "the server is stopping");
  CHECK(status_of(running.engine, {job_of(1, 1)}) == 503);
}

TEST_CASE("serve: damaged weights fail the request, not the server") {
  Running running;
  for (const NamedParameter& p : running.model->parameters()) p.variable.value().fill(std::nan(""));
  const auto completion = running.engine.submit({job_of(4, 1)});
  CHECK_THROWS_WITH(texts_of(*completion, 1), Catch::Contains("NaN"));
  CHECK_THROWS_AS(texts_of(*running.engine.submit({job_of(5, 1)}), 1), RequestError);
}
