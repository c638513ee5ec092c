#include "train/tasks/language/benchmark/run_benchmark.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "models/llm/llama.h"
#include "train/tasks/language/score/continue_prompts.h"
#include "train/tasks/language/score/score_continuations.h"
#include "train/tasks/language/score/text_requests.h"

namespace moh {

namespace {

/// Text of questions whose tokens are in memory at a time.
constexpr std::size_t kMostChunkBytes = std::size_t{64} << 20;

/// A question, and where its result goes.
struct Question {
  const BenchmarkItem* item;
  ItemResult* result;
};

std::size_t bytes_of(const BenchmarkItem& item) {
  std::size_t bytes = 0;
  // Contexts are encoded once for each continuation.
  for (std::size_t i = 0; i < std::max<std::size_t>(item.continuations.size(), 1); ++i)
    bytes += item.contexts[std::min(i, item.contexts.size() - 1)].size() +
             (item.continuations.empty() ? 0 : item.continuations[i].size());
  return bytes;
}

/// Questions one after the other, in parts of a bounded size.
std::vector<std::vector<Question>> chunks_of(const std::vector<Question>& questions) {
  std::vector<std::vector<Question>> chunks;
  std::size_t bytes = kMostChunkBytes;
  for (const Question& question : questions) {
    if (bytes >= kMostChunkBytes) {
      chunks.emplace_back();
      bytes = 0;
    }
    chunks.back().push_back(question);
    bytes += bytes_of(*question.item);
  }
  return chunks;
}

/// Calls encode(i) for each question, on all threads; errors name the question.
template <class Encode>
void encode_each(const std::vector<Question>& questions, const Encode& encode) {
  parallel_for(std::ssize(questions), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      try {
        encode(at);
      } catch (const DataError& error) {
        throw DataError(questions[at].item->place + ": " + error.what());
      }
    }
  });
}

std::vector<ScoreRequest> requests_of(const BenchmarkItem& item, const Tokenizer& tokenizer) {
  std::vector<ScoreRequest> requests;
  for (std::size_t i = 0; i < item.continuations.size(); ++i)
    requests.push_back(
        encode_pair(tokenizer, item.contexts[std::min(i, item.contexts.size() - 1)], item.continuations[i]));
  return requests;
}

class Runner {
 public:
  Runner(const LanguageModel& model, const BenchmarkTask& task, const BenchmarkOptions& options)
      : model_(model), task_(task), options_(options) {}

  /// Returns false if `stop` returned true.
  bool run(const std::vector<Question>& questions, FunctionRef<bool(double share)> stop) const {
    const auto look = [&](const ScoreProgress& p) {
      return stop(p.total == 0 ? 0 : static_cast<double>(p.done) / static_cast<double>(p.total));
    };
    return task_.kind == BenchmarkKind::kGeneration ? generate(questions, look) : score(questions, look);
  }

 private:
  bool score(const std::vector<Question>& questions, StopScoring stop) const {
    const Tokenizer& tokenizer = *model_.tokenizer;
    std::vector<std::vector<ScoreRequest>> by_question(questions.size());
    encode_each(questions, [&](std::size_t i) {
      const BenchmarkItem& item = *questions[i].item;
      by_question[i] =
          task_.kind == BenchmarkKind::kPerplexity
              ? encode_windows(tokenizer, item.continuations.front(), model_.model.config().max_positions)
              : requests_of(item, tokenizer);
    });
    std::vector<ScoreRequest> requests;
    std::vector<std::size_t> owners;
    for (std::size_t i = 0; i < by_question.size(); ++i) {
      for (ScoreRequest& request : by_question[i]) {
        requests.push_back(std::move(request));
        owners.push_back(i);
      }
      by_question[i].clear();
    }
    const auto scores = score_continuations(model_.model, std::move(requests), options_.limits, stop);
    if (!scores) return false;
    for (std::size_t i = 0; i < owners.size(); ++i) keep((*scores)[i], *questions[owners[i]].result);
    return true;
  }

  void keep(const ContinuationScore& score, ItemResult& result) const {
    result.dropped_tokens += score.dropped_tokens;
    if (task_.kind == BenchmarkKind::kPerplexity && !result.log_likelihoods.empty()) {
      result.log_likelihoods.front() += score.log_likelihood;
      return;
    }
    result.log_likelihoods.push_back(score.log_likelihood);
    result.is_greedy.push_back(score.is_greedy);
  }

  bool generate(const std::vector<Question>& questions, StopScoring stop) const {
    const Tokenizer& tokenizer = *model_.tokenizer;
    const ContinueOptions how{options_.new_tokens.value_or(task_.generation.tokens), task_.generation.stop,
                              model_.ends};
    std::vector<std::vector<TokenId>> prompts(questions.size());
    encode_each(questions, [&](std::size_t i) {
      prompts[i] = encode_context(tokenizer, questions[i].item->contexts.front());
      const std::int64_t room = model_.model.config().max_positions - how.tokens;
      questions[i].result->dropped_tokens = std::max<std::int64_t>(0, std::ssize(prompts[i]) - room);
    });
    const auto texts =
        continue_prompts(model_.model, tokenizer, std::move(prompts), how, options_.limits, stop);
    if (!texts) return false;
    for (std::size_t i = 0; i < questions.size(); ++i) questions[i].result->text = (*texts)[i];
    return true;
  }

  const LanguageModel& model_;
  const BenchmarkTask& task_;
  const BenchmarkOptions& options_;
};

}  // namespace

std::int64_t BenchmarkResult::num_items() const {
  std::int64_t count = 0;
  for (const auto& subject : items) count += std::ssize(subject);
  return count;
}

std::int64_t BenchmarkResult::num_cut() const {
  std::int64_t count = 0;
  for (const auto& subject : results)
    count +=
        std::ranges::count_if(subject, [](const ItemResult& result) { return result.dropped_tokens > 0; });
  return count;
}

const MetricValue& BenchmarkResult::score() const {
  const auto found = std::ranges::find(scores, task.kind == BenchmarkKind::kGroup ? "average" : task.score,
                                       &MetricValue::name);
  MOH_CHECK(found != scores.end(), "a benchmark's score is one of its metrics");
  return *found;
}

std::optional<BenchmarkResult> run_benchmark(const LanguageModel& model, const BenchmarkTask& task,
                                             std::vector<std::vector<BenchmarkItem>> items,
                                             const BenchmarkOptions& options, StopBenchmark stop) {
  BenchmarkResult result{.task = task, .shots = shots_of(task, options.items), .items = std::move(items)};
  std::vector<Question> questions;
  for (const auto& subject : result.items) result.results.emplace_back(subject.size());
  for (std::size_t s = 0; s < result.items.size(); ++s) {
    for (std::size_t i = 0; i < result.items[s].size(); ++i)
      questions.push_back({&result.items[s][i], &result.results[s][i]});
  }
  const Runner runner(model, task, options);
  double done = 0;
  for (const std::vector<Question>& chunk : chunks_of(questions)) {
    const auto look = [&](double share) {
      return stop({done + share * static_cast<double>(chunk.size()), std::ssize(questions)});
    };
    if (!runner.run(chunk, look)) return std::nullopt;
    done += static_cast<double>(chunk.size());
  }
  for (const auto& [item, of_item] : questions) of_item->values = item_values(task, *item, *of_item);
  result.scores = aggregate(task, result.items, result.results);
  return result;
}

BenchmarkResult average_of(const BenchmarkTask& group, const std::vector<BenchmarkResult>& results) {
  MetricValue average{"average", 0, 0.0};
  for (const std::string& member : group.members) {
    const auto found = std::ranges::find_if(
        results, [&](const BenchmarkResult& result) { return result.task.name == member; });
    MOH_CHECK(found != results.end(), "the members of a group were run");
    const MetricValue& score = found->score();
    average.value += score.value;
    // Of independent means: sqrt(sum(error^2)) / members.
    if (average.error && score.error)
      average.error = std::hypot(*average.error, *score.error);
    else
      average.error = std::nullopt;
  }
  const auto count = static_cast<double>(group.members.size());
  average.value /= count;
  if (average.error) average.error = *average.error / count;
  return {.task = group, .scores = {average}};
}

}  // namespace moh
