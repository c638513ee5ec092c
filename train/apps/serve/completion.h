#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/apps/serve/token_logprobs.h"
#include "train/families/language/generate_text.h"

namespace moh {

/// A prompt, and how it goes on.
struct TextJob {
  std::vector<TokenId> prompt;           ///< at least one
  std::int64_t max_tokens = 0;           ///< 0: the prompt's scores alone
  PickOptions pick;                      ///< as of generate_text
  std::uint64_t seed = 0;                ///< text number i of the prompt has seed + i
  std::vector<std::string> stop;         ///< texts before which to stop
  std::vector<TokenId> ends;             ///< tokens that end the text, besides those of the model
  std::int64_t n = 1;                    ///< texts
  bool scores_prompt = false;            ///< score the prompt's tokens, too
  std::optional<std::int64_t> logprobs;  ///< score tokens, with so many of the most probable ones
  std::size_t first_text = 0;  ///< number of its first text in the completion; Engine::submit counts
};

/// Why a text ended.
enum class Finish {
  kLength,  ///< max_tokens were generated
  kStop     ///< the model ended the document, or a stop text was generated
};

/// The new part of a text.
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
  /// A job has texts first_text ... first_text + n - 1.
  Completion(std::vector<TextJob> jobs, std::size_t texts) : jobs_(std::move(jobs)), unfinished_(texts) {}

  const std::vector<TextJob>& jobs() const { return jobs_; }

  /// The next piece; nothing if none came within `patience_seconds`, or if all have been returned (done()).
  /// Throws RequestError if the completion failed.
  std::optional<TextPiece> next(double patience_seconds);
  /// Whether all pieces have been returned.
  bool done() const;
  /// From now on `wake` is called when there is something for next() to return, once until it returns
  /// nothing. It may be called by any thread, and must not call the completion.
  void watch(std::function<void()> wake);
  /// Nobody waits for the rest any more.
  void cancel() { cancelled_ = true; }

  // For the thread that runs the model.

  bool cancelled() const { return cancelled_; }
  void add(TextPiece piece);
  /// Ends the completion; the first failure counts. Does not need memory.
  void fail(int status, std::string_view message);

 private:
  void announce();

  const std::vector<TextJob> jobs_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> wake_;
  bool announced_ = false;
  std::deque<TextPiece> pieces_;
  std::size_t unfinished_;
  int failure_ = 0;  // a status
  std::string message_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace moh
