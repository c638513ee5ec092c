#include "train/families/translation/decode/beam_search.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "core/error.h"
#include "core/random.h"

using namespace moh;
using Catch::Contains;

namespace {

constexpr TokenId kEndToken = 0;
constexpr std::int64_t kVocabTokens = 5;

/// A language model of nothing: logits that are a function of all tokens so far.
std::vector<float> logits_after(const std::vector<TokenId>& tokens, std::uint64_t seed, float end_bias) {
  std::uint64_t state = 1;
  for (const TokenId token : tokens) state = 31 * state + static_cast<std::uint64_t>(token);
  std::vector<float> logits;
  for (std::uint64_t v = 0; v < static_cast<std::uint64_t>(kVocabTokens); ++v)
    logits.push_back(static_cast<float>(4 * random_uniform({seed, 3}, kVocabTokens * state + v)));
  logits[kEndToken] += end_bias;
  return logits;
}

std::vector<double> log_softmax(const std::vector<float>& logits) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<double> result;
  for (const float logit : logits) result.push_back(static_cast<double>(logit) - std::log(sum));
  return result;
}

using NextLogits = std::function<std::vector<float>(const std::vector<TokenId>&)>;

std::vector<Hypothesis> run_search(const NextLogits& model, const BeamOptions& options,
                                   std::int64_t max_length,
                                   const SearchVocabulary& vocabulary = {kEndToken, kVocabTokens, {}}) {
  BeamSearch beams(options, vocabulary, max_length);
  std::vector<std::vector<TokenId>> rows(1);
  while (!beams.is_done()) {
    std::vector<float> logits;
    for (const auto& tokens : rows) std::ranges::copy(model(tokens), std::back_inserter(logits));
    beams.advance(logits);
    std::vector<std::vector<TokenId>> next;
    for (std::int64_t row = 0; row < beams.rows(); ++row) {
      next.push_back(rows[static_cast<std::size_t>(beams.parent(row))]);
      next.back().push_back(beams.last_token(row));
    }
    rows = std::move(next);
  }
  return beams.finished();
}

/// Every translation of up to max_length tokens with its end, which is free at the greatest length.
std::vector<Hypothesis> all_translations(const NextLogits& model, double length_penalty,
                                         std::int64_t max_length) {
  std::vector<Hypothesis> found;
  std::function<void(std::vector<TokenId>, double)> visit = [&](std::vector<TokenId> tokens, double sum) {
    const std::int64_t length = std::ssize(tokens) + 1;
    const auto log_p = log_softmax(model(tokens));
    const double ended = length == max_length ? sum : sum + log_p[kEndToken];
    found.push_back({tokens, ended, ended / std::pow(static_cast<double>(length), length_penalty)});
    if (length == max_length) return;
    for (TokenId token = 1; token < kVocabTokens; ++token) {
      tokens.push_back(token);
      visit(tokens, sum + log_p[static_cast<std::size_t>(token)]);
      tokens.pop_back();
    }
  };
  visit({}, 0);
  std::ranges::stable_sort(found, std::greater<>(), &Hypothesis::score);
  return found;
}

}  // namespace

TEST_CASE("beam search: with beams for all hypotheses it finds the best of all translations") {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    const NextLogits model = [&](const std::vector<TokenId>& tokens) {
      return logits_after(tokens, seed, 0.5F);
    };
    for (const double penalty : {0.0, 0.6, 1.0, 2.0, -1.0}) {
      const auto expected = all_translations(model, penalty, 4);  // 1 + 4 + 16 + 64
      // 85 beams: no continuation is ever left out, and none ends before the greatest length ends all.
      const BeamOptions options{.beams = 85, .length_penalty = penalty};
      const auto found = run_search(model, options, 4);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].score == Approx(expected[i].score).epsilon(1e-12));
        CHECK(found[i].log_probability == Approx(expected[i].log_probability).epsilon(1e-12));
      }
      CHECK(found.front().tokens == expected.front().tokens);
    }
  }
}

TEST_CASE("beam search: one beam takes the most probable token until the end") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5}) {
    const NextLogits model = [&](const std::vector<TokenId>& tokens) {
      return logits_after(tokens, seed, 1.0F);
    };
    std::vector<TokenId> tokens;
    double sum = 0;
    while (tokens.size() < 11) {
      const auto log_p = log_softmax(model(tokens));
      const auto best = static_cast<TokenId>(std::ranges::max_element(log_p) - log_p.begin());
      sum += log_p[static_cast<std::size_t>(best)];
      if (best == kEndToken) break;
      tokens.push_back(best);
    }
    const auto found = run_search(model, {.beams = 1, .length_penalty = 0.7}, 12);
    REQUIRE(found.size() == 1);
    CHECK(found[0].tokens == tokens);
    CHECK(found[0].log_probability == Approx(sum));
    CHECK(found[0].score == Approx(sum / std::pow(static_cast<double>(tokens.size() + 1), 0.7)));
  }
}

TEST_CASE("beam search: the greatest length ends all hypotheses, at no cost") {
  const NextLogits never_ends = [](const std::vector<TokenId>& tokens) {
    return logits_after(tokens, 7, -1e4F);
  };
  const auto found = run_search(never_ends, {.beams = 3, .length_penalty = 1}, 5);
  REQUIRE(found.size() == 3);
  for (const Hypothesis& hypothesis : found) {
    CHECK(hypothesis.tokens.size() == 4);
    double sum = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::vector<TokenId> before(hypothesis.tokens.begin(),
                                        hypothesis.tokens.begin() + std::ptrdiff_t(i));
      sum += log_softmax(never_ends(before))[static_cast<std::size_t>(hypothesis.tokens[i])];
    }
    CHECK(hypothesis.log_probability == Approx(sum));
    CHECK(hypothesis.score == Approx(sum / 5));
  }
  const auto empty = run_search(never_ends, {.beams = 3}, 1);
  REQUIRE(empty.size() == 1);
  CHECK(empty[0].tokens.empty());
  CHECK(empty[0].score == 0);
}

TEST_CASE("beam search: tokens that are forbidden or have no text are not chosen") {
  const NextLogits model = [](const std::vector<TokenId>& tokens) {
    std::vector<float> logits = logits_after(tokens, 9, -3.0F);
    logits[2] += 10;
    logits[4] += 10;
    return logits;
  };
  for (const Hypothesis& hypothesis :
       run_search(model, {.beams = 2}, 6, {kEndToken, kVocabTokens - 1, {2}})) {
    CHECK(hypothesis.log_probability < -5);  // of a softmax over all logits
    for (const TokenId token : hypothesis.tokens) CHECK((token == 1 || token == 3));
  }
}

TEST_CASE("beam search: early stopping") {
  // Probabilities of the end and two tokens, by the number of tokens so far: "", "a", then "aaa", which is
  // better per token, and after it a long one.
  const NextLogits model = [](const std::vector<TokenId>& tokens) {
    constexpr float kProbabilities[][3] = {{0.45F, 0.5F, 0.05F},
                                           {0.5F, 0.45F, 0.05F},
                                           {0.01F, 0.98F, 0.01F},
                                           {0.98F, 0.01F, 0.01F},
                                           {0.01F, 0.98F, 0.01F}};
    std::vector<float> logits;
    for (const float p : kProbabilities[std::min<std::size_t>(tokens.size(), 4)])
      logits.push_back(std::log(p));
    return logits;
  };
  const auto best = [&](EarlyStopping early_stopping) {
    return run_search(model, {.beams = 2, .length_penalty = 1, .early_stopping = early_stopping}, 20).front();
  };
  const Hypothesis at_once = best(EarlyStopping::kYes);
  CHECK(at_once.tokens == std::vector<TokenId>{1});
  CHECK(at_once.score == Approx(std::log(0.5 * 0.5) / 2));
  const Hypothesis by_length = best(EarlyStopping::kNo);
  CHECK(by_length.tokens == std::vector<TokenId>{1, 1, 1});
  CHECK(by_length.score == Approx(std::log(0.5 * 0.45 * 0.98 * 0.98) / 4));
  const Hypothesis at_last = best(EarlyStopping::kNever);
  CHECK(at_last.tokens.size() == 19);
  CHECK(at_last.score == Approx(std::log(0.5 * 0.45 * 0.98 * 0.01 * std::pow(0.98, 15)) / 20));
}

TEST_CASE("beam search: options and logits are checked") {
  CHECK_THROWS_WITH(run_search({}, {.beams = 0}, 5), Contains("beams: expected 1 or more, found 0"));
  CHECK_THROWS_WITH(run_search({}, {}, 0), Contains("greatest length: expected 1 or more, found 0"));
  CHECK_THROWS_WITH(run_search({}, {.length_penalty = std::nan("")}, 5),
                    Contains("expected a finite number"));
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const NextLogits damaged = [&](const std::vector<TokenId>&) {
      return std::vector<float>{0, bad, 0, 0, 0};
    };
    CHECK_THROWS_AS(run_search(damaged, {}, 5), NumericError);
  }
}
