#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/apps/serve/completion.h"
#include "train/apps/serve/token_text.h"
#include "train/families/language/stop_filter.h"

namespace moh {

/// Tokens that end a text for a model, and the tokenizer's vocabulary.
struct TextRules {
  const TokenText& text;
  std::vector<TokenId> ends;
};

/// A text that is generated: draws its tokens, and makes text of them. A function of the job, the number of
/// the text among those of its prompt, and the logits.
class GeneratedText {
 public:
  /// Text number `number` of job `job` of the completion.
  GeneratedText(std::shared_ptr<Completion> completion, std::size_t job, std::int64_t number,
                const TextRules& rules);

  Completion& completion() const { return *completion_; }
  const TextJob& job() const { return job_; }
  /// Draws a token from `logits` [V]; what it adds, with the scores of the tokens before it, `scores`, is the
  /// next piece. Throws NumericError for logits that are NaN.
  void draw(std::span<const float> logits, std::vector<TokenLogprobs> scores = {});
  /// Ends the text without a token: the scores of a prompt that is not continued are its only piece.
  void end_with(std::vector<TokenLogprobs> scores);
  /// Gives the piece that draw() or end_with() has made to the completion. Calls that only compute come
  /// before it, so that whoever reads the last piece finds the text counted as ended.
  void hand_over() { completion_->add(std::move(piece_)); }

  bool finished() const { return finished_; }
  TokenId last() const { return last_; }

 private:
  bool ends(TokenId id) const;

  std::shared_ptr<Completion> completion_;
  const TextJob& job_;
  const TextRules& rules_;
  std::size_t choice_;
  TokenPicker picker_;
  Utf8Stream characters_{ControlCharacters::kKeep};
  StopFilter filter_;
  TextPiece piece_;
  std::int64_t generated_ = 0;
  TokenId last_ = 0;
  bool finished_ = false;
};

}  // namespace moh
