#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train/tokenizers/token_id.h"

namespace moh {

/// The end of a search that has finished as many hypotheses as it has beams (BeamSearch).
enum class EarlyStopping {
  kNo,    ///< no longer hypothesis can be better, by the best running one's score at its present length
  kYes,   ///< at once
  kNever  ///< as kNo, but with a positive length penalty by its score at the greatest length
};

struct BeamOptions {
  std::int64_t beams = 5;                             ///< 1: greedy
  double length_penalty = 1;                          ///< exponent p of the length in scores
  EarlyStopping early_stopping = EarlyStopping::kNo;  ///< of more than one beam
};

/// The tokens that a search may choose.
struct SearchVocabulary {
  TokenId end = 0;                 ///< ends a sentence
  std::int64_t tokens = 0;         ///< ids from here on have no text: rows that pad the model's vocabulary
  std::vector<TokenId> forbidden;  ///< never chosen, such as a decoder's start token that ends no sentence
};

/// A translation in tokens.
struct Hypothesis {
  std::vector<TokenId> tokens;  ///< without the end
  double log_probability = 0;  ///< of the tokens and the end, natural; an end that the length forced counts 0
  double score = 0;            ///< log_probability / (number of tokens with the end)^p
};

/// Beam search for the translation of one sentence: hypotheses y of the greatest
///
///   score(y) = sum_t log P(y_t | y_<t, x) / |y|^p,    |y| the tokens of y with its end
///
/// as `generate()` of transformers 4.57 finds them for MarianMTModel and FSMTForConditionalGeneration
/// (num_beams B, length_penalty p, early_stopping, forced_eos_token_id, and max_length, which there counts
/// the decoder's start token, too: max_length here + 1):
///
/// - Each step takes the 2 B most probable continuations of the B running hypotheses. Of the first B, all
///   that end are finished; the B most probable that do not end go on.
/// - Of all finished ones the B of the best scores are kept.
/// - At max_length tokens every running hypothesis ends, and this end has log probability 0.
/// - The search is over when B are finished and, with kNo, the best running hypothesis has, divided by its
///   number of tokens ^ p, no better score than the worst finished one. One beam stops at its first end.
///
/// Log probabilities are of a softmax over all logits, also where tokens are forbidden. Equal ones go to the
/// hypothesis that was better, then to the lower id.
class BeamSearch {
 public:
  /// Throws ValueError for less than one beam or token, and for a length penalty that is not finite.
  BeamSearch(const BeamOptions& options, const SearchVocabulary& vocabulary, std::int64_t max_length);

  bool is_done() const { return is_done_; }
  std::int64_t max_length() const { return max_length_; }
  /// Running hypotheses: one before the first step, then up to B.
  std::int64_t rows() const { return static_cast<std::int64_t>(running_.size()); }
  /// The last token of a row; there is one after the first step.
  TokenId last_token(std::int64_t row) const { return running_[static_cast<std::size_t>(row)].tokens.back(); }
  /// The row before the last step that a row continues.
  std::int64_t parent(std::int64_t row) const { return running_[static_cast<std::size_t>(row)].parent; }

  /// Makes a step with the logits of the next token, [rows(), V] with V of at least the vocabulary's tokens.
  /// Throws NumericError for logits that are NaN or infinite.
  void advance(std::span<const float> logits);

  /// The finished hypotheses of a search that is done, the best first; B, unless the vocabulary has fewer.
  const std::vector<Hypothesis>& finished() const { return finished_; }

 private:
  struct Running {
    std::vector<TokenId> tokens;
    double log_probability = 0;
    std::int64_t parent = 0;
  };
  struct Candidate {
    double log_probability = 0;
    std::int64_t row = 0;
    TokenId token = 0;

    bool operator<(const Candidate& other) const;
  };

  bool is_forbidden(TokenId token) const;
  /// The most probable continuations, the best first.
  std::vector<Candidate> candidates(std::span<const float> logits) const;
  double score(double log_probability, std::int64_t length) const;
  void finish(const Running& hypothesis, double log_probability);
  bool is_over() const;
  /// Ends the running hypotheses where they are.
  void end_all();
  void end_if_over();

  BeamOptions options_;
  SearchVocabulary vocabulary_;
  std::int64_t max_length_;
  std::int64_t length_ = 0;  // tokens of the running hypotheses
  std::vector<Running> running_;
  std::vector<Hypothesis> finished_;
  bool is_done_ = false;
};

}  // namespace moh
