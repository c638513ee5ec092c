#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/tasks/language/benchmark/benchmark_items.h"
#include "train/tasks/language/benchmark/benchmark_task.h"
#include "train/tasks/language/score/score_continuations.h"

namespace moh {

/// The names of the scores that a kind of benchmark can have, as lm-evaluation-harness names them; none for a
/// group.
///
///   acc         of choices: the share of questions whose right choice has the largest log-likelihood; of a
///               continuation: those for which each of its tokens is the most probable one
///   acc_norm    the same with log-likelihoods divided by the characters of the choices, acc_bytes by the
///   bytes mass        the mean share of the right choices in the sum of all choices' likelihoods (mc2 of
///   TruthfulQA) perplexity  of a continuation: e to the negative mean log-likelihood exact_match the share
///   of questions to which what the model wrote has the right answer word_perplexity, byte_perplexity,
///   bits_per_byte   of texts, over all of their words or bytes
std::vector<std::string> metrics_of(BenchmarkKind kind);

/// Those that a benchmark reports: with extractions an "exact_match,NAME" for each.
std::vector<std::string> reported_metrics(const BenchmarkTask& task);

/// What a model made of one question.
struct ItemResult {
  std::vector<double> log_likelihoods;  ///< of its choices, its continuation or its text
  std::vector<bool> is_greedy;          ///< of each of them
  std::string text;                     ///< what the model wrote
  std::int64_t dropped_tokens = 0;  ///< of the beginning of its contexts, for which the model is too short
  std::vector<double> values;       ///< of reported_metrics; of perplexities, log-likelihoods
};

/// The values of a benchmark's scores for a question.
std::vector<double> item_values(const BenchmarkTask& task, const BenchmarkItem& item,
                                const ItemResult& result);

/// A score over questions.
struct MetricValue {
  std::string name;
  double value = 0;
  /// Standard error. Of a mean, that of lm-evaluation-harness: the sample's standard deviation over the root
  /// of its size, pooled over subjects. Of others, by the delta method. None for a single question.
  std::optional<double> error;
};

/// The scores over all questions of subjects. `items` and `results` are by subject; none is empty.
std::vector<MetricValue> aggregate(const BenchmarkTask& task,
                                   const std::vector<std::vector<BenchmarkItem>>& items,
                                   const std::vector<std::vector<ItemResult>>& results);

}  // namespace moh
