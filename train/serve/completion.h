#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "train/serve/token_logprobs.h"
#include "train/tasks/language/generate_text.h"

namespace moh {

/// A prompt, and how it goes on.
struct TextJob {
  std::vector<TokenId> prompt;           ///< at least one
  std::int64_t max_tokens = 0;           ///< 0: the prompt's scores alone
  PickOptions pick;                      ///< as of generate_text
  std::uint64_t seed = 0;                ///< text number i of the prompt has seed + i
  std::vector<std::string> stop;         ///< texts before which to stop
  std::int64_t n = 1;                    ///< texts
  bool scores_prompt = false;            ///< score the prompt's tokens, too
  std::optional<std::int64_t> logprobs;  ///< score tokens, with so many of the most probable ones
};

/// Why a text ended.
enum class Finish {
  kLength,  ///< max_tokens were generated
  kStop     ///< the model ended the document, or a stop text was generated
};

/// What is new of a text.
struct TextPiece {
  std::size_t choice = 0;             ///< number of the text in the completion
  std::string text;                   ///< whole characters; without the prompt and the stop text
  std::vector<TokenLogprobs> scores;  ///< of tokens; those of the prompt come in the first piece
  std::int64_t tokens = 0;            ///< newly generated
  std::optional<Finish> finish;       ///< in the last piece of the text
};

/// The texts of one request, handed over piece by piece from the thread that runs the model to the one that
/// answers.
class Completion {
 public:
  /// Prompt number p has texts p n ... p n + n - 1.
  Completion(std::vector<TextJob> jobs, std::size_t texts) : jobs_(std::move(jobs)), unfinished_(texts) {}

  const std::vector<TextJob>& jobs() const { return jobs_; }

  /// The next piece; nothing if none came within `patience_seconds`, or if all have been returned (done()).
  /// Throws RequestError if the completion failed.
  std::optional<TextPiece> next(double patience_seconds);
  /// Whether all pieces have been returned.
  bool done() const;
  /// Nobody waits for the rest any more.
  void cancel() { cancelled_ = true; }

  // For the thread that runs the model.

  bool cancelled() const { return cancelled_; }
  void add(TextPiece piece);
  /// Ends the completion; the first failure counts.
  void fail(int status, const std::string& message);

 private:
  const std::vector<TextJob> jobs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TextPiece> pieces_;
  std::size_t unfinished_;
  int failure_ = 0;  // a status
  std::string message_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace moh
