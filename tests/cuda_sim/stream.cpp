#include "tests/cuda_sim/stream.h"

#include <exception>
#include <utility>

namespace moh::sim {

Stream& Stream::instance() {
  static auto* stream = new Stream;
  return *stream;
}

void Stream::submit(Work work) {
  if (capture_ == Capture::kRecording) return recorded_.push_back(std::move(work));
  if (!late_) return work();
  pending_.push_back({marks_, std::move(work)});
}

void Stream::begin_capture() {
  capture_ = Capture::kRecording;
  ++captures_;
}

std::vector<Stream::Work> Stream::end_capture() {
  capture_ = Capture::kNone;
  return std::exchange(recorded_, {});
}

void Stream::wait_for(std::int64_t mark) {
  if (known_done(mark)) return;
  done_ = mark;
  ++waits_;
  while (!pending_.empty() && pending_.front().after < mark) {
    const Work work = std::move(pending_.front().work);
    pending_.pop_front();
    work();
  }
}

Stream::LateScope::LateScope(bool late) : previous_(std::exchange(instance().late_, late)) {}

Stream::LateScope::~LateScope() noexcept(false) {
  instance().late_ = previous_;
  if (std::uncaught_exceptions() == 0) instance().wait_for_all();
}

}  // namespace moh::sim
