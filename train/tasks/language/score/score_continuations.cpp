#include "train/tasks/language/score/score_continuations.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/top1.h"
#include "train/tasks/language/score/prefix_caches.h"

namespace moh {

namespace {

/// Logits that are made at a time: 256 MiB.
constexpr std::int64_t kMostLogits = std::int64_t{1} << 26;

void check_request(const ScoreRequest& request, std::size_t index, std::int64_t positions) {
  const auto refuse = [&](const char* what, const std::string& expected, std::size_t found) {
    throw ValueError(error_message("score", "request " + std::to_string(index) + ": " + what, expected,
                                   std::to_string(found)));
  };
  if (request.context.empty()) refuse("context", "a token or more", 0);
  const std::int64_t most = positions - (request.with_next ? 1 : 0);
  if (request.continuation.empty() || std::ssize(request.continuation) > most)
    refuse("continuation", "1 to " + std::to_string(most) + " tokens", request.continuation.size());
}

/// The tokens that are computed after the context: the last one predicts none, unless the token that follows
/// it is asked for.
std::int64_t tail_tokens(const ScoreRequest& request) {
  return std::ssize(request.continuation) - (request.with_next ? 0 : 1);
}

/// Removes tokens from the beginning of the context until the text fits; returns their number.
std::int64_t fit(ScoreRequest& request, std::int64_t positions) {
  const std::int64_t too_many = std::ssize(request.context) + tail_tokens(request) - positions;
  if (too_many <= 0) return 0;
  request.context.erase(request.context.begin(), request.context.begin() + too_many);
  return too_many;
}

/// A row of hidden states, and whose token it predicts.
struct Prediction {
  std::int64_t row;
  std::size_t request;
  std::int64_t token;  ///< of the continuation; its length for the one after it
};

class Scorer {
 public:
  Scorer(const Llama& model, std::span<const ScoreRequest> requests, std::span<const PlannedText> texts,
         std::vector<ContinuationScore>& scores)
      : model_(model), requests_(requests), texts_(texts), scores_(scores) {
    for (std::size_t i = 0; i < requests.size(); ++i)
      scores[i].tokens.resize(requests[i].continuation.size());
  }

  void score(const ScoreBatch& batch, const std::optional<KvCache>& prefix) {
    KvCache cache = make_batch_cache(model_, batch, prefix);
    score_first_tokens(
        batch, model_.decode_hidden(contexts_of(batch, texts_, prefix ? prefix->length() : 0), cache));
    const std::int64_t end = cache.length();
    // The groups' first continuations together, then their second ones.
    for (std::size_t j = 0; score_tails(batch, j, cache); ++j) cache.rewind(end);
  }

 private:
  void score_first_tokens(const ScoreBatch& batch, const Tensor& hidden) {
    std::vector<Prediction> predictions;
    for (std::size_t g = 0; g < batch.groups.size(); ++g) {
      const std::int64_t row = static_cast<std::int64_t>(g + 1) * batch.context_tokens - 1;
      for (const std::size_t request : batch.groups[g].texts) predictions.push_back({row, request, 0});
    }
    score_all(hidden, predictions);
  }

  /// Computes the j-th continuation of each group; returns false if no group has tokens left to compute.
  bool score_tails(const ScoreBatch& batch, std::size_t j, KvCache& cache) {
    std::vector<std::pair<std::int64_t, std::size_t>> tails;  // (sequence, request)
    std::int64_t longest = 0;
    for (std::size_t g = 0; g < batch.groups.size(); ++g) {
      if (j >= batch.groups[g].texts.size()) continue;
      const std::size_t request = batch.groups[g].texts[j];
      tails.emplace_back(static_cast<std::int64_t>(g), request);
      longest = std::max(longest, tail_tokens(requests_[request]));
    }
    if (longest == 0) return false;  // nor have later ones, which are no longer
    const Tensor ids = zeros({std::ssize(batch.groups), longest}, DType::kInt32);
    std::vector<Prediction> predictions;
    for (const auto& [sequence, request] : tails) {
      const std::int64_t count = tail_tokens(requests_[request]);
      std::copy_n(requests_[request].continuation.begin(), count, ids.select(sequence).data<TokenId>());
      for (std::int64_t t = 0; t < count; ++t)
        predictions.push_back({sequence * longest + t, request, t + 1});
    }
    score_all(model_.decode_hidden(ids, cache), predictions);
    return true;
  }

  void score_all(const Tensor& hidden, std::span<const Prediction> predictions) {
    const auto most =
        static_cast<std::size_t>(std::max<std::int64_t>(1, kMostLogits / model_.config().vocab_size));
    for (std::size_t first = 0; first < predictions.size(); first += most)
      score_some(hidden, predictions.subspan(first, std::min(most, predictions.size() - first)));
  }

  void score_some(const Tensor& hidden, std::span<const Prediction> predictions) {
    const std::int64_t count = std::ssize(predictions);
    const Tensor rows = empty({count}, DType::kInt64);
    for (std::int64_t i = 0; i < count; ++i)
      rows.data<std::int64_t>()[i] = predictions[static_cast<std::size_t>(i)].row;
    const Tensor logits = model_.logits_at(hidden, rows), best = top1(logits);
    const Tensor best_losses = token_losses(logits, best).to(kCpu), best_ids = best.to(kCpu);
    const Tensor targets = empty({count}, DType::kInt64);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto& [row, request, token] = predictions[static_cast<std::size_t>(i)];
      const std::vector<TokenId>& continuation = requests_[request].continuation;
      targets.data<std::int64_t>()[i] = token < std::ssize(continuation)
                                            ? continuation[static_cast<std::size_t>(token)]
                                            : best_ids.data<std::int64_t>()[i];
    }
    const Tensor losses = token_losses(logits, targets).to(kCpu);
    for (std::int64_t i = 0; i < count; ++i) {
      const TokenScore score{-losses.data<float>()[i], static_cast<TokenId>(best_ids.data<std::int64_t>()[i]),
                             -best_losses.data<float>()[i]};
      keep(predictions[static_cast<std::size_t>(i)], score);
    }
  }

  void keep(const Prediction& prediction, const TokenScore& score) {
    if (!std::isfinite(score.log_probability) || !std::isfinite(score.best_log_probability))
      throw NumericError("score: the model's logits are not finite; its weights are damaged");
    ContinuationScore& result = scores_[prediction.request];
    if (prediction.token < std::ssize(result.tokens))
      result.tokens[static_cast<std::size_t>(prediction.token)] = score;
    else
      result.next = score;
  }

  const Llama& model_;
  std::span<const ScoreRequest> requests_;
  std::span<const PlannedText> texts_;
  std::vector<ContinuationScore>& scores_;
};

void add_up(const ScoreRequest& request, ContinuationScore& score) {
  for (std::size_t i = 0; i < score.tokens.size(); ++i) {
    score.log_likelihood += static_cast<double>(score.tokens[i].log_probability);
    score.is_greedy = score.is_greedy && score.tokens[i].best == request.continuation[i];
  }
}

}  // namespace

std::optional<std::vector<ContinuationScore>> score_continuations(const Llama& model,
                                                                  std::vector<ScoreRequest> requests,
                                                                  const ScoreLimits& limits,
                                                                  StopScoring stop) {
  const std::int64_t positions = model.config().max_positions;
  std::vector<ContinuationScore> scores(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    check_request(requests[i], i, positions);
    scores[i].dropped_tokens = fit(requests[i], positions);
  }
  std::vector<PlannedText> texts;
  for (const ScoreRequest& request : requests) texts.push_back({request.context, tail_tokens(request)});
  const std::vector<PrefixGroup> plan = plan_texts(texts, limits);
  ScoreProgress progress{0, computed_tokens(plan, texts)};
  Scorer scorer(model, requests, texts, scores);
  for (const PrefixGroup& group : plan) {
    if (group.prefix_tokens > 0 && stop(progress)) return std::nullopt;
    const std::optional<KvCache> prefix = make_prefix_cache(model, group, texts);
    progress.done += group.prefix_tokens;
    for (const ScoreBatch& batch : group.batches) {
      if (stop(progress)) return std::nullopt;
      scorer.score(batch, prefix);
      progress.done += computed_tokens(batch, texts);
    }
  }
  for (std::size_t i = 0; i < requests.size(); ++i) add_up(requests[i], scores[i]);
  return scores;
}

}  // namespace moh
