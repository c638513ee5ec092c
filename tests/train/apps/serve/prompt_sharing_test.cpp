// Prompts that begin alike: what others have read changes no text and no log-probability.

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "tests/train/apps/serve/running_engine.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr std::int64_t kSharedPositions = 1300;

LlamaConfig base_model() {
  return {.vocab_size = 256,
          .layers = 2,
          .hidden = 32,
          .intermediate = 48,
          .heads = 4,
          .kv_heads = 2,
          .max_positions = kSharedPositions,
          .moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 2}};
}

std::vector<LlamaConfig> kinds_of_models() {
  std::vector<LlamaConfig> kinds(9, base_model());
  kinds[1].moh = {};
  kinds[2].moh.router = routers::kQueryNorm;
  kinds[3].moh = {.router = routers::kLearned, .routing = routings::kGroups, .num_shared = 0, .top_k = 1};
  kinds[4].sliding_window = PerLayer({20, 0});
  kinds[5].rope_scaling = {.kind = RopeScalingKind::kDynamic, .factor = 2, .original_positions = 700};
  kinds[6].rope_scaling = {.kind = RopeScalingKind::kLinear, .factor = 2};
  kinds[7].moh = {
      .router = routers::kQueryNorm, .routing = routings::kWithinGroups, .num_shared = 0, .top_k = 2};
  kinds[8].moh = {};
  kinds[8].switch_head = {3, 2};
  return kinds;
}

/// Prompts that share 0 to all tokens with the one before, in every place of pages and pieces.
std::vector<TextJob> some_jobs() {
  std::vector<TextJob> jobs;
  TextJob job = job_of(1100, 3, 4);
  std::uint64_t seed = 1;
  for (const std::size_t same : {0, 1100, 1099, 1098, 1097, 1092, 1024, 700, 512, 511, 65, 64, 9, 3, 2, 1}) {
    for (std::size_t i = same; i < job.prompt.size(); ++i)
      job.prompt[i] = static_cast<TokenId>(1 + (job.prompt[i] + seed) % 255);
    job.seed = ++seed;
    jobs.push_back(job);
  }
  for (const std::size_t length : {1, 2, 3, 9, 40, 516, 600, 705, 1100}) {  // beginnings of the last one
    jobs.push_back(jobs.back());
    jobs.back().prompt.resize(std::min(length, job.prompt.size()));
    if (length > jobs[jobs.size() - 2].prompt.size())
      jobs.back().prompt = {job.prompt.begin(), job.prompt.begin() + static_cast<std::ptrdiff_t>(length)};
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].scores_prompt = i % 3 != 0;
    jobs[i].logprobs = static_cast<std::int64_t>(i % 4);
    jobs[i].n = i % 5 == 0 ? 3 : 1;
    if (i % 4 == 1) jobs[i].max_tokens = 0;
  }
  return jobs;
}

std::vector<std::vector<Text>> one_by_one(Running& running, const std::vector<TextJob>& jobs) {
  std::vector<std::vector<Text>> all;
  for (const TextJob& job : jobs)
    all.push_back(texts_of(*running.engine.submit({job}), static_cast<std::size_t>(job.n)));
  return all;
}

}  // namespace

TEST_CASE("serve: texts and log-probabilities are the same bits with and without a prefix cache",
          "[one_isa]") {
  const std::vector<TextJob> jobs = some_jobs();
  for (const LlamaConfig& config : kinds_of_models()) {
    Running off({.prefix_bytes = 0}, config), on({}, config), small({.prefix_bytes = 400 << 10}, config);
    const std::vector<std::vector<Text>> expected = one_by_one(off, jobs);
    CHECK(off.metrics.prefix_hit_tokens + off.metrics.prefix_miss_tokens + off.metrics.prefix_bytes == 0);
    for (Running* running : {&on, &small}) {
      for (int round = 0; round < 2; ++round) {
        const std::vector<std::vector<Text>> found = one_by_one(*running, jobs);
        for (std::size_t i = 0; i < jobs.size(); ++i) {
          INFO("job " << i << ", a prompt of " << jobs[i].prompt.size() << ", round " << round);
          REQUIRE(found[i] == expected[i]);
        }
      }
      CHECK(running->metrics.prefix_hit_tokens > 0);
      CHECK(running->metrics.prompt_tokens < 2 * off.metrics.prompt_tokens);
    }
    // Longer prompts of the model with dynamic angles share nothing, so a small cache holds enough.
    if (config.rope_scaling.kind != RopeScalingKind::kDynamic)
      CHECK(on.metrics.prefix_hit_tokens > small.metrics.prefix_hit_tokens);
    CHECK(small.metrics.prefix_bytes <= 400 << 10);
  }
}

TEST_CASE("serve: prompts of one request compute what they begin with once") {
  Running running({}, base_model());
  std::vector<TextJob> jobs;
  for (TokenId choice = 1; choice <= 4; ++choice) {
    jobs.push_back(job_of(1000, 3, 1));
    jobs.back().prompt.back() = choice;
    jobs.back().scores_prompt = true;
    jobs.back().logprobs = 1;
  }
  texts_of(*running.engine.submit(jobs), 4);
  CHECK(running.metrics.prompt_tokens == 1000 + 3 * 2);
  CHECK(running.metrics.prefix_hit_tokens == 3 * 998);
  CHECK(running.metrics.prefix_miss_tokens == 1000 + 3 * 2);
  CHECK(running.metrics.running_texts == 0);
}

TEST_CASE("serve: requests at once share what they begin with, and those that are given up harm no other") {
  Running off({.prefix_bytes = 0}, base_model()), on({.max_batch = 4}, base_model());
  const std::vector<TextJob> jobs = some_jobs();
  std::vector<std::shared_ptr<Completion>> completions;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    completions.push_back(on.engine.submit({jobs[i]}));
    if (i % 3 == 2) on.engine.submit({jobs[i], jobs[0]})->cancel();
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto texts = static_cast<std::size_t>(jobs[i].n);
    REQUIRE(texts_of(*completions[i], texts) == texts_of(*off.engine.submit({jobs[i]}), texts));
  }
  CHECK(on.metrics.prefix_hit_tokens > 0);
}
