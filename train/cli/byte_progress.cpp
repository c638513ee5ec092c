#include "train/cli/byte_progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "train/metrics/format.h"
#include "train/metrics/progress.h"

namespace moh::cli {

ByteProgress::ByteProgress(std::string doing, std::uint64_t total_bytes)
    : console_(STDERR_FILENO),
      doing_(std::move(doing)),
      total_(total_bytes),
      shown_seconds_(monotonic_seconds()) {}

void ByteProgress::add(std::uint64_t bytes) {
  done_ += bytes;
  const double now = monotonic_seconds(), pause = console_.traits().is_terminal ? 0.1 : 10.0;
  if (now - shown_seconds_ < pause) return;
  shown_seconds_ = now;
  // Headers count, too: never more than all.
  const std::uint64_t done = std::min(done_, total_);
  const std::string text = doing_ + ": " + format_bytes(static_cast<std::int64_t>(done)) + " of " +
                           format_bytes(static_cast<std::int64_t>(total_)) + " (" +
                           std::to_string(total_ == 0 ? 100 : done * 100 / total_) + "%)";
  if (console_.traits().is_terminal)
    console_.set_status(text);
  else
    console_.print(text);
}

void ByteProgress::finish() {
  console_.clear_status();
}

}  // namespace moh::cli
