#include "train/tasks/language/benchmark/benchmark_metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <string_view>

#include "core/error.h"
#include "train/tasks/language/benchmark/text_regex.h"
#include "train/tasks/language/score/python_text.h"

namespace moh {

namespace {

constexpr std::string_view kPunctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
constexpr std::string_view kExactMatch = "exact_match";
/// What stands for an answer that was not found.
constexpr const char* kNoAnswer = "[invalid]";

/// The position of the first largest of log-likelihoods over lengths; empty lengths count as 1.
std::size_t best_choice(const std::vector<double>& log_likelihoods,
                        const std::vector<std::int64_t>& lengths) {
  std::size_t best = 0;
  const auto normed = [&](std::size_t i) {
    // A choice without characters has a log-likelihood per character of minus infinity.
    return log_likelihoods[i] / static_cast<double>(lengths[i]);
  };
  for (std::size_t i = 1; i < log_likelihoods.size(); ++i) {
    if (normed(i) > normed(best)) best = i;
  }
  return best;
}

double mass_of(const std::vector<double>& log_likelihoods, const std::vector<bool>& correct) {
  const double top = *std::ranges::max_element(log_likelihoods);
  double all = 0, right = 0;
  for (std::size_t i = 0; i < log_likelihoods.size(); ++i) {
    const double likelihood = std::exp(log_likelihoods[i] - top);
    all += likelihood;
    if (correct[i]) right += likelihood;
  }
  return right / all;
}

double choice_value(const std::string& metric, const BenchmarkItem& item, const std::vector<double>& scores) {
  if (metric == "mass") return mass_of(scores, item.correct);
  const std::vector<std::int64_t> ones(scores.size(), 1);
  const std::size_t best = metric == "acc_norm"    ? best_choice(scores, item.characters)
                           : metric == "acc_bytes" ? best_choice(scores, item.bytes)
                                                   : best_choice(scores, ones);
  return item.correct[best] ? 1 : 0;
}

std::string comparable(std::string text, const BenchmarkTask::Match& match) {
  for (const std::string& ignored : match.ignored)
    text = TextRegex(ignored, "match.ignored").replaced(text, "");
  if (match.ignore_case) text = python_lower(text);
  if (match.ignore_punctuation)
    std::erase_if(text, [](char c) { return kPunctuation.find(c) != std::string_view::npos; });
  return text;
}

/// The answer in what the model wrote.
std::string extracted(const std::string& text, const BenchmarkTask::Extraction& how) {
  if (how.regex.empty()) return std::string(python_strip(text));
  const auto matches = TextRegex(how.regex, how.name).find_all(text);
  if (matches.empty()) return kNoAnswer;
  const std::vector<std::string>& match = how.last ? matches.back() : matches.front();
  const auto group = std::ranges::find_if(match, [](const std::string& part) { return !part.empty(); });
  return group == match.end() ? kNoAnswer : std::string(python_strip(*group));
}

double exact_match(const BenchmarkTask& task, const BenchmarkTask::Extraction& how, const BenchmarkItem& item,
                   const std::string& text) {
  const std::string found = comparable(extracted(text, how), task.match);
  const bool right = std::ranges::any_of(item.references, [&](const std::string& reference) {
    return comparable(reference, task.match) == found;
  });
  return right ? 1 : 0;
}

/// The mean of each subject's values, and the standard error of the mean over all.
MetricValue mean_of(const std::string& name, const std::vector<std::vector<double>>& subjects) {
  double sum = 0, squares = 0;
  std::int64_t count = 0;
  for (const std::vector<double>& values : subjects) {
    const double own = std::accumulate(values.begin(), values.end(), 0.0);
    sum += own;
    count += std::ssize(values);
    for (const double value : values)
      squares += std::pow(value - own / static_cast<double>(values.size()), 2);
  }
  MetricValue result{name, sum / static_cast<double>(count), std::nullopt};
  // With the variance of each subject, s^2 = squares / (n - 1), this is the harness's pooled error: the root
  // of sum((n - 1) s^2) / (N - subjects) / N.
  const auto freedom = static_cast<double>(count - std::ssize(subjects));
  if (freedom > 0) result.error = std::sqrt(squares / freedom / static_cast<double>(count));
  return result;
}

/// sum(values) / sum(weights), and its standard error by the delta method.
struct Ratio {
  double value = 0;
  std::optional<double> error;
};

Ratio ratio_of(const std::vector<double>& values, const std::vector<double>& weights) {
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  Ratio ratio{std::accumulate(values.begin(), values.end(), 0.0) / all, std::nullopt};
  double squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i)
    squares += std::pow(values[i] - ratio.value * weights[i], 2);
  const auto count = static_cast<double>(values.size());
  if (count > 1) ratio.error = std::sqrt(squares * count / (count - 1)) / all;
  return ratio;
}

MetricValue perplexity_of(const std::string& name, const Ratio& ratio) {
  MetricValue result{name, 0, std::nullopt};
  if (name == "bits_per_byte") {
    result.value = -ratio.value / std::numbers::ln2;
    if (ratio.error) result.error = *ratio.error / std::numbers::ln2;
    return result;
  }
  result.value = std::exp(-ratio.value);
  if (ratio.error) result.error = result.value * *ratio.error;
  return result;
}

double weight_of(const std::string& metric, const BenchmarkItem& item) {
  if (metric == "word_perplexity") return static_cast<double>(item.words);
  if (metric == "perplexity") return 1;
  return static_cast<double>(item.text_bytes);
}

bool is_perplexity(const std::string& metric) {
  return metric.ends_with("perplexity") || metric == "bits_per_byte";
}

}  // namespace

std::vector<std::string> metrics_of(BenchmarkKind kind) {
  switch (kind) {
    case BenchmarkKind::kMultipleChoice:
      return {"acc", "acc_norm", "acc_bytes", "mass"};
    case BenchmarkKind::kContinuation:
      return {"acc", "perplexity"};
    case BenchmarkKind::kGeneration:
      return {std::string(kExactMatch)};
    case BenchmarkKind::kPerplexity:
      return {"word_perplexity", "byte_perplexity", "bits_per_byte"};
    case BenchmarkKind::kGroup:
      return {};
  }
  fail_check(__FILE__, __LINE__, "kind", "unknown BenchmarkKind");
}

std::vector<std::string> reported_metrics(const BenchmarkTask& task) {
  if (task.kind == BenchmarkKind::kGroup) return {"average"};
  if (task.kind != BenchmarkKind::kGeneration || task.extractions.empty()) return task.metrics;
  std::vector<std::string> names;
  for (const BenchmarkTask::Extraction& how : task.extractions)
    names.push_back(std::string(kExactMatch) + "," + how.name);
  return names;
}

std::vector<double> item_values(const BenchmarkTask& task, const BenchmarkItem& item,
                                const ItemResult& result) {
  std::vector<double> values;
  if (task.kind == BenchmarkKind::kGeneration) {
    if (task.extractions.empty()) return {exact_match(task, {}, item, result.text)};
    for (const BenchmarkTask::Extraction& how : task.extractions)
      values.push_back(exact_match(task, how, item, result.text));
    return values;
  }
  for (const std::string& metric : task.metrics) {
    if (is_perplexity(metric))
      values.push_back(result.log_likelihoods.front());
    else if (task.kind == BenchmarkKind::kContinuation)
      values.push_back(result.is_greedy.front() ? 1 : 0);
    else
      values.push_back(choice_value(metric, item, result.log_likelihoods));
  }
  return values;
}

std::vector<MetricValue> aggregate(const BenchmarkTask& task,
                                   const std::vector<std::vector<BenchmarkItem>>& items,
                                   const std::vector<std::vector<ItemResult>>& results) {
  std::vector<MetricValue> scores;
  const std::vector<std::string> metrics = reported_metrics(task);
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    std::vector<std::vector<double>> values;  // by subject
    std::vector<double> all, weights;
    for (std::size_t s = 0; s < items.size(); ++s) {
      values.emplace_back();
      for (std::size_t i = 0; i < items[s].size(); ++i) {
        values.back().push_back(results[s][i].values[m]);
        all.push_back(values.back().back());
        weights.push_back(weight_of(metrics[m], items[s][i]));
      }
    }
    scores.push_back(is_perplexity(metrics[m]) ? perplexity_of(metrics[m], ratio_of(all, weights))
                                               : mean_of(metrics[m], values));
  }
  return scores;
}

}  // namespace moh
