#include "train/families/translation/decode/beam_search.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/error.h"

namespace moh {

namespace {

/// The logarithm of the sum of the exponentials of a row.
double log_sum_exp(std::span<const float> row) {
  const double greatest = *std::ranges::max_element(row);
  double sum = 0;
  for (const float logit : row) sum += std::exp(static_cast<double>(logit) - greatest);
  const double result = greatest + std::log(sum);
  if (!std::isfinite(result))
    throw NumericError(error_message("translate", "logits", "finite numbers", std::to_string(result),
                                     "the model's weights are damaged"));
  return result;
}

}  // namespace

bool BeamSearch::Candidate::operator<(const Candidate& other) const {
  if (log_probability != other.log_probability) return log_probability > other.log_probability;
  return row != other.row ? row < other.row : token < other.token;
}

BeamSearch::BeamSearch(const BeamOptions& options, const SearchVocabulary& vocabulary,
                       std::int64_t max_length)
    : options_(options), vocabulary_(vocabulary), max_length_(max_length), running_(1) {
  if (options.beams < 1)
    throw ValueError(error_message("translate", "beams", "1 or more", std::to_string(options.beams)));
  if (max_length < 1)
    throw ValueError(error_message("translate", "greatest length", "1 or more", std::to_string(max_length)));
  if (!std::isfinite(options.length_penalty))
    throw ValueError(error_message("translate", "length penalty", "a finite number",
                                   std::to_string(options.length_penalty)));
  end_if_over();
}

bool BeamSearch::is_forbidden(TokenId token) const {
  return std::ranges::find(vocabulary_.forbidden, token) != vocabulary_.forbidden.end();
}

std::vector<BeamSearch::Candidate> BeamSearch::candidates(std::span<const float> logits) const {
  const std::size_t width = logits.size() / running_.size();
  const std::size_t tokens = std::min(width, static_cast<std::size_t>(vocabulary_.tokens));
  const auto wanted = static_cast<std::size_t>(2 * options_.beams);
  std::vector<Candidate> best;  // a heap, the worst in front
  for (std::size_t row = 0; row < running_.size(); ++row) {
    const std::span<const float> of_row = logits.subspan(row * width, width);
    const double offset = running_[row].log_probability - log_sum_exp(of_row);
    for (std::size_t token = 0; token < tokens; ++token) {
      const Candidate candidate{offset + static_cast<double>(of_row[token]), static_cast<std::int64_t>(row),
                                static_cast<TokenId>(token)};
      if (best.size() == wanted && !(candidate < best.front())) continue;
      if (is_forbidden(candidate.token)) continue;
      if (best.size() == wanted) {
        std::ranges::pop_heap(best, std::less<>());
        best.pop_back();
      }
      best.push_back(candidate);
      std::ranges::push_heap(best, std::less<>());
    }
  }
  std::ranges::sort_heap(best, std::less<>());
  return best;
}

double BeamSearch::score(double log_probability, std::int64_t length) const {
  return log_probability / std::pow(static_cast<double>(length), options_.length_penalty);
}

void BeamSearch::finish(const Running& hypothesis, double log_probability) {
  const auto length = static_cast<std::int64_t>(hypothesis.tokens.size()) + 1;
  Hypothesis finished{hypothesis.tokens, log_probability, score(log_probability, length)};
  const auto is_worse = [&](const Hypothesis& other) { return other.score < finished.score; };
  finished_.insert(std::ranges::find_if(finished_, is_worse), std::move(finished));
  if (std::ssize(finished_) > options_.beams) finished_.pop_back();
}

bool BeamSearch::is_over() const {
  if (running_.empty()) return true;
  if (std::ssize(finished_) < options_.beams) return false;
  if (options_.beams == 1 || options_.early_stopping == EarlyStopping::kYes) return true;
  const bool at_greatest = options_.early_stopping == EarlyStopping::kNever && options_.length_penalty > 0;
  const double best = score(running_.front().log_probability, at_greatest ? max_length_ : length_);
  return !(best > finished_.back().score);
}

void BeamSearch::end_all() {
  for (const Running& hypothesis : std::exchange(running_, {}))
    finish(hypothesis, hypothesis.log_probability);
}

void BeamSearch::advance(std::span<const float> logits) {
  MOH_CHECK(!is_done_ && logits.size() % running_.size() == 0, "a step of a search that goes on");
  const std::vector<Candidate> best = candidates(logits);
  const std::vector<Running> before = std::exchange(running_, {});
  ++length_;
  for (std::int64_t rank = 0; rank < std::ssize(best); ++rank) {
    const auto& [log_probability, row, token] = best[static_cast<std::size_t>(rank)];
    const Running& parent = before[static_cast<std::size_t>(row)];
    if (token == vocabulary_.end) {
      if (rank < options_.beams) finish(parent, log_probability);
    } else if (std::ssize(running_) < options_.beams) {
      Running& next = running_.emplace_back(Running{parent.tokens, log_probability, row});
      next.tokens.push_back(token);
    }
  }
  end_if_over();
}

void BeamSearch::end_if_over() {
  is_done_ = is_over();
  if (is_done_ || length_ + 1 < max_length_) return;
  end_all();
  is_done_ = true;
}

}  // namespace moh
