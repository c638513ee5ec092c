#include "train/serve/completion.h"

#include <chrono>
#include <utility>

#include "train/serve/request_error.h"

namespace moh {

std::optional<TextPiece> Completion::next(double patience_seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(patience_seconds),
                    [&] { return !pieces_.empty() || failure_ != 0 || unfinished_ == 0; });
  if (failure_ != 0) throw RequestError(failure_, message_);
  if (pieces_.empty()) return std::nullopt;
  TextPiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

bool Completion::done() const {
  const std::scoped_lock lock(mutex_);
  return unfinished_ == 0 && pieces_.empty() && failure_ == 0;
}

void Completion::add(TextPiece piece) {
  {
    const std::scoped_lock lock(mutex_);
    if (piece.finish) --unfinished_;
    pieces_.push_back(std::move(piece));
  }
  changed_.notify_one();
}

void Completion::fail(int status, const std::string& message) {
  cancel();  // its other texts, too
  {
    const std::scoped_lock lock(mutex_);
    if (failure_ != 0) return;
    failure_ = status;
    message_ = message;
  }
  changed_.notify_one();
}

}  // namespace moh
