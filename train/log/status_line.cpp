#include "train/log/status_line.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "train/log/format.h"

namespace moh {

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

StatusLine::StatusLine(Console& console, Clock clock)
    : console_(console),
      clock_(std::move(clock)),
      pause_(console.traits().is_terminal ? 0.1 : 10.0),
      start_(clock_()),
      shown_(console.traits().is_terminal ? start_ - pause_ : start_) {}

void StatusLine::update(FunctionRef<std::string()> text, bool last) {
  const double now = clock_();
  if (now - shown_ < pause_ && !last) return;
  shown_ = now;
  if (console_.traits().is_terminal)
    console_.set_status(text());
  else
    console_.print(text());
}

ByteProgress::ByteProgress(std::string doing, std::uint64_t total_bytes)
    : console_(STDERR_FILENO), doing_(std::move(doing)), total_(total_bytes), line_(console_) {}

void ByteProgress::add(std::uint64_t bytes) {
  done_ = std::min(done_ + bytes, total_);  // headers count, too: never more than all
  line_.update([&] {
    return doing_ + ": " + format_bytes(static_cast<std::int64_t>(done_)) + " of " +
           format_bytes(static_cast<std::int64_t>(total_)) + " (" +
           std::to_string(total_ == 0 ? 100 : done_ * 100 / total_) + "%)";
  });
}

}  // namespace moh
