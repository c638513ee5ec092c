#include "train/tasks/language/score/score_continuations.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "models/llm/llama.h"
#include "tests/models/llm/tiny_llama.h"

using namespace moh;

namespace {

constexpr std::int64_t kVocab = 19, kPositions = 64;

std::unique_ptr<Llama> model_of(RouterKind router, const PerLayer& window = PerLayer()) {
  LlamaConfig config = test::tiny_llama(router);
  config.max_positions = kPositions;
  config.sliding_window = window;
  auto model = std::make_unique<Llama>(config, DType::kFloat32);
  model->initialise(4);
  return model;
}

/// Draws of a stream.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : key_{seed, 3} {}
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>(random_below(key_, next_++, static_cast<std::uint64_t>(bound)));
  }
  std::vector<TokenId> ids(std::int64_t count) {
    std::vector<TokenId> ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(static_cast<TokenId>(below(kVocab)));
    return ids;
  }

 private:
  RandomKey key_;
  std::uint64_t next_ = 0;
};

std::vector<TokenId> joined(std::vector<TokenId> a, const std::vector<TokenId>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Questions of 1 to 9 tokens with up to four answers of 1 to 5, after one of two sets of examples or none.
std::vector<ScoreRequest> some_requests() {
  Draws draws(7);
  const std::vector<TokenId> examples[] = {draws.ids(40), draws.ids(35), {}};
  std::vector<ScoreRequest> requests;
  for (int question = 0; question < 30; ++question) {
    const std::vector<TokenId> context = joined(examples[question % 3], draws.ids(1 + draws.below(9)));
    for (std::int64_t answers = 1 + draws.below(4); answers > 0; --answers)
      requests.push_back({context, draws.ids(1 + draws.below(5)), draws.below(2) == 1});
  }
  return requests;
}

/// The same from one forward pass over the text.
ContinuationScore reference(const Llama& model, const ScoreRequest& request) {
  const std::vector<TokenId> text = joined(request.context, request.continuation);
  const Tensor logits = model.forward(tensor_of<TokenId>({1, std::ssize(text)}, text)).logits.value();
  const auto score_after = [&](std::int64_t position, std::optional<TokenId> target) {
    const float* row = logits.data<float>() + position * kVocab;
    const float* top = std::max_element(row, row + kVocab);
    double sum = 0;
    for (std::int64_t v = 0; v < kVocab; ++v) sum += std::exp(double{row[v]} - *top);
    const auto best = static_cast<TokenId>(top - row);
    return TokenScore{static_cast<float>(row[target.value_or(best)] - *top - std::log(sum)), best,
                      static_cast<float>(-std::log(sum))};
  };
  ContinuationScore score;
  std::int64_t position = std::ssize(request.context) - 1;
  for (const TokenId id : request.continuation) {
    score.tokens.push_back(score_after(position++, id));
    score.log_likelihood += double{score.tokens.back().log_probability};
    score.is_greedy = score.is_greedy && score.tokens.back().best == id;
  }
  if (request.with_next) score.next = score_after(position, std::nullopt);
  return score;
}

void check_same(const TokenScore& found, const TokenScore& expected) {
  CHECK(found.log_probability == Approx(expected.log_probability).margin(1e-5));
  CHECK(found.best == expected.best);
  CHECK(found.best_log_probability == Approx(expected.best_log_probability).margin(1e-5));
}

void check_same(const ContinuationScore& found, const ContinuationScore& expected) {
  CHECK(found.log_likelihood == Approx(expected.log_likelihood).margin(1e-4));
  CHECK(found.is_greedy == expected.is_greedy);
  REQUIRE(found.tokens.size() == expected.tokens.size());
  double sum = 0;
  for (std::size_t i = 0; i < found.tokens.size(); ++i) {
    check_same(found.tokens[i], expected.tokens[i]);
    sum += double{found.tokens[i].log_probability};
  }
  CHECK(found.log_likelihood == sum);
  REQUIRE(found.next.has_value() == expected.next.has_value());
  if (found.next) check_same(*found.next, *expected.next);
}

std::vector<PlannedText> texts_of(const std::vector<ScoreRequest>& requests) {
  std::vector<PlannedText> texts;
  for (const ScoreRequest& request : requests)
    texts.push_back({request.context, std::ssize(request.continuation) - (request.with_next ? 0 : 1)});
  return texts;
}

std::vector<PrefixGroup> plan_scores(const std::vector<ScoreRequest>& requests, const ScoreLimits& limits) {
  return plan_texts(texts_of(requests), limits);
}

/// Every request once, equal contexts together, within the limits.
void check_plan(const std::vector<ScoreRequest>& requests, const ScoreLimits& limits) {
  std::set<std::size_t> seen;
  for (const PrefixGroup& prefix : plan_scores(requests, limits)) {
    const ContextGroup& first = prefix.batches.front().groups.front();
    const std::vector<TokenId>& model = requests[first.texts.front()].context;
    for (const ScoreBatch& batch : prefix.batches) {
      const std::int64_t count = std::ssize(batch.groups);
      CHECK((count == 1 || count * batch.context_tokens <= limits.batch_tokens));
      const std::int64_t cached = prefix.prefix_tokens + batch.context_tokens + batch.longest_tail;
      CHECK((count == 1 || count * cached <= limits.cached_tokens));
      for (const ContextGroup& group : batch.groups) {
        for (const std::size_t i : group.texts) {
          CHECK(seen.insert(i).second);
          CHECK(requests[i].context == requests[group.texts.front()].context);
          CHECK(std::ssize(requests[i].context) == prefix.prefix_tokens + batch.context_tokens);
          CHECK(std::equal(model.begin(), model.begin() + prefix.prefix_tokens, requests[i].context.begin()));
          CHECK(texts_of(requests)[i].tail <= batch.longest_tail);
        }
      }
    }
  }
  CHECK(seen.size() == requests.size());
}

}  // namespace

TEST_CASE("score: a plan has every request once, within the limits") {
  const std::vector<ScoreRequest> requests = some_requests();
  for (const ScoreLimits& limits : {ScoreLimits{}, ScoreLimits{.batch_tokens = 1}, ScoreLimits{20, 200, 4},
                                    ScoreLimits{.cached_tokens = 60}, ScoreLimits{.shared_tokens = 1000}})
    check_plan(requests, limits);
  CHECK(plan_scores({}, {}).empty());
}

TEST_CASE("score: examples and questions are computed once") {
  Draws draws(1);
  const std::vector<TokenId> examples = draws.ids(600);
  std::vector<ScoreRequest> requests;
  for (int question = 0; question < 100; ++question) {
    const std::vector<TokenId> context = joined(examples, draws.ids(20 + question % 4));
    for (TokenId letter = 0; letter < 4; ++letter) requests.push_back({context, {letter}});
  }
  const std::vector<PrefixGroup> plan = plan_scores(requests, {});
  REQUIRE(plan.size() == 1);
  // Some questions begin with the same token; the prefix is what all have.
  CHECK(plan[0].prefix_tokens == 600);
  CHECK(plan[0].batches.size() == 4);  // of the lengths 23 to 20
  CHECK(computed_tokens(plan, texts_of(requests)) == 600 + 25 * (20 + 21 + 22 + 23));
  // With longer answers, what follows their first token.
  for (ScoreRequest& request : requests) request.continuation.resize(3);
  CHECK(computed_tokens(plan_scores(requests, {}), texts_of(requests)) ==
        600 + 25 * (20 + 21 + 22 + 23) + 400 * 2);
}

TEST_CASE("score: two contexts that begin with other examples do not cost a run of theirs its prefix") {
  Draws draws(2);
  const std::vector<TokenId> same = draws.ids(40), a = joined(same, draws.ids(300)),
                             b = joined(same, draws.ids(300));
  std::vector<ScoreRequest> requests;
  for (int i = 0; i < 10; ++i) {
    requests.push_back({joined(a, draws.ids(5)), {1}});
    requests.push_back({joined(b, draws.ids(5)), {1}});
  }
  const std::vector<PrefixGroup> plan = plan_scores(requests, {});
  REQUIRE(plan.size() == 2);
  CHECK(plan[0].prefix_tokens == 340);
  CHECK(plan[1].prefix_tokens == 340);
}

TEST_CASE("score: continuations have the log-probabilities of a forward pass over the whole text") {
  std::vector<ScoreRequest> requests = some_requests();
  requests.push_back(requests.front());  // twice the same
  requests.push_back({{3}, Draws(9).ids(40), true});
  for (const RouterKind router : {RouterKind::kNone, RouterKind::kLearned, RouterKind::kQueryNorm}) {
    for (const PerLayer& window : {PerLayer(), PerLayer({9, 0})}) {
      const auto model = model_of(router, window);
      std::vector<ContinuationScore> expected;
      for (const ScoreRequest& request : requests) expected.push_back(reference(*model, request));
      for (const ScoreLimits& limits : {ScoreLimits{}, ScoreLimits{.batch_tokens = 1},
                                        ScoreLimits{20, 200, 4}, ScoreLimits{.shared_tokens = 1000}}) {
        const auto found = score_continuations(*model, requests, limits);
        REQUIRE(found.has_value());
        REQUIRE(found->size() == requests.size());
        for (std::size_t i = 0; i < requests.size(); ++i) {
          INFO("request " << i);
          check_same((*found)[i], expected[i]);
        }
      }
    }
  }
}

TEST_CASE("score: greedy continuations are found out") {
  const auto model = model_of(RouterKind::kNone);
  ScoreRequest request{Draws(3).ids(5), {}, true};
  for (int i = 0; i < 4; ++i) {
    request.continuation.push_back(0);
    const auto found = score_continuations(*model, {request});
    const TokenId best = (*found)[0].tokens.back().best;
    CHECK((*found)[0].is_greedy == (best == 0));
    request.continuation.back() = best;
  }
  const ContinuationScore greedy = score_continuations(*model, {request})->front();
  CHECK(greedy.is_greedy);
  for (const TokenScore& token : greedy.tokens) CHECK(token.log_probability == token.best_log_probability);
  // The next token is that which makes the continuation one longer.
  request.continuation.push_back(greedy.next->best);
  const ContinuationScore longer = score_continuations(*model, {request})->front();
  CHECK(longer.is_greedy);
  CHECK(longer.tokens.back().log_probability == Approx(greedy.next->log_probability).margin(1e-5));
}

TEST_CASE("score: what exceeds the positions is dropped at the beginning, and counted") {
  const auto model = model_of(RouterKind::kLearned);
  Draws draws(4);
  const ScoreRequest request{draws.ids(100), draws.ids(10)};
  for (const bool with_next : {false, true}) {
    ScoreRequest given = request, cut = request;
    given.with_next = cut.with_next = with_next;
    const std::int64_t dropped = 100 + 10 - (with_next ? 0 : 1) - kPositions;
    cut.context.erase(cut.context.begin(), cut.context.begin() + dropped);
    const auto found = score_continuations(*model, {given, cut});
    CHECK((*found)[0].dropped_tokens == dropped);
    CHECK((*found)[1].dropped_tokens == 0);
    CHECK((*found)[0].log_likelihood == (*found)[1].log_likelihood);
    // A forward pass takes no more tokens than there are positions, and the last one of these is not needed.
    cut.with_next = false;
    if (with_next)
      check_same((*found)[1], [&] {
        cut.with_next = true;
        return reference(*model, cut);
      }());
  }
}

TEST_CASE("score: the same bits with any number of threads, and again") {
  const auto model = model_of(RouterKind::kLearned);
  const std::vector<ScoreRequest> requests = some_requests();
  const auto sums_of = [&](int threads) {
    set_num_threads(threads);
    std::vector<double> sums;
    const auto scores = score_continuations(*model, requests);
    for (const ContinuationScore& score : *scores) sums.push_back(score.log_likelihood);
    set_num_threads(0);
    return sums;
  };
  const std::vector<double> one = sums_of(1);
  CHECK(sums_of(3) == one);
  CHECK(sums_of(1) == one);
}

TEST_CASE("score: it counts its tokens, and stops when asked to") {
  const auto model = model_of(RouterKind::kNone);
  const std::vector<ScoreRequest> requests = some_requests();
  std::vector<ScoreProgress> seen;
  const auto look = [&](const ScoreProgress& progress) {
    seen.push_back(progress);
    return false;
  };
  const ScoreLimits limits{.batch_tokens = 20};
  REQUIRE(score_continuations(*model, requests, limits, look).has_value());
  REQUIRE(seen.size() > 10);
  CHECK(seen.front().done == 0);
  for (std::size_t i = 1; i < seen.size(); ++i) CHECK(seen[i].done > seen[i - 1].done);
  CHECK(seen.back().done < seen.back().total);
  CHECK(seen.back().total == computed_tokens(plan_scores(requests, limits), texts_of(requests)));
  int calls = 0;
  const auto stop = [&](const ScoreProgress&) { return ++calls == 3; };
  CHECK_FALSE(score_continuations(*model, requests, limits, stop).has_value());
  CHECK(calls == 3);
}

TEST_CASE("score: requests without tokens, or with too many, are refused by number") {
  const auto model = model_of(RouterKind::kNone);
  const auto score = [&](const ScoreRequest& request) {
    score_continuations(*model, {ScoreRequest{{1}, {2}}, request});
  };
  CHECK_THROWS_WITH(score({{}, {1}}), "score: request 1: context: expected a token or more, found 0");
  CHECK_THROWS_WITH(score({{1}, {}}), "score: request 1: continuation: expected 1 to 64 tokens, found 0");
  CHECK_THROWS_WITH(score({{1}, Draws(1).ids(65)}), Catch::Contains("expected 1 to 64 tokens, found 65"));
  CHECK_THROWS_WITH(score({{1}, Draws(1).ids(64), true}),
                    Catch::Contains("expected 1 to 63 tokens, found 64"));
  CHECK_NOTHROW(score({{1}, Draws(1).ids(64)}));
  CHECK_THROWS_AS(score({{1}, {kVocab}}), ValueError);
  CHECK(score_continuations(*model, {})->empty());
  model->parameters().front().variable.value().fill(std::numeric_limits<double>::quiet_NaN());
  CHECK_THROWS_AS(score({{1}, {2}}), NumericError);
}
