#include "train/apps/serve/completion.h"

#include <chrono>
#include <new>
#include <utility>

#include "train/base/http/request_error.h"

namespace moh {

std::optional<TextPiece> Completion::next(double patience_seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(patience_seconds),
                    [&] { return !pieces_.empty() || failure_ != 0 || unfinished_ == 0; });
  if (failure_ != 0) throw RequestError(failure_, message_);
  if (pieces_.empty()) {
    announced_ = false;
    return std::nullopt;
  }
  TextPiece piece = std::move(pieces_.front());
  pieces_.pop_front();
  return piece;
}

bool Completion::done() const {
  const std::scoped_lock lock(mutex_);
  return unfinished_ == 0 && pieces_.empty() && failure_ == 0;
}

void Completion::watch(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
  announced_ = false;
  if (!pieces_.empty() || failure_ != 0) announce();
}

/// With the lock held.
void Completion::announce() {
  changed_.notify_one();
  if (wake_ && !std::exchange(announced_, true)) wake_();
}

void Completion::add(TextPiece piece) {
  const std::scoped_lock lock(mutex_);
  pieces_.push_back(std::move(piece));
  if (pieces_.back().finish) --unfinished_;
  announce();
}

void Completion::fail(int status, std::string_view message) {
  cancel();  // its other texts, too
  const std::scoped_lock lock(mutex_);
  if (failure_ != 0) return;
  failure_ = status;
  try {
    message_ = message;
  } catch (const std::bad_alloc&) {
    // The status says enough.
  }
  announce();
}

}  // namespace moh
