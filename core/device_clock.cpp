#include "core/device_clock.h"

#include <chrono>
#include <utility>

#include "core/cuda/backend.h"
#include "core/error.h"

namespace moh {

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

DeviceClock::DeviceClock(Device device)
    : now_(device == kCpu ? std::function<double()>(steady_seconds) : nullptr) {}

DeviceClock::DeviceClock(std::function<double()> now) : now_(std::move(now)) {}

DeviceClock::~DeviceClock() {
  for (void* event : events_) cuda::destroy_event(event);
}

DeviceClock::DeviceClock(DeviceClock&& other) noexcept
    : now_(std::move(other.now_)),
      num_marks_(std::exchange(other.num_marks_, 0)),
      times_(std::move(other.times_)),
      events_(std::exchange(other.events_, {})) {}

DeviceClock::Mark DeviceClock::mark() {
  const Mark mark = num_marks_;
  if (now_) {
    if (times_.size() == mark) times_.push_back(0);
    times_[mark] = now_();
  } else {
    if (events_.size() == mark) events_.push_back(cuda::create_event());
    cuda::record_event(events_[mark]);
  }
  ++num_marks_;
  return mark;
}

double DeviceClock::seconds(Mark from, Mark to) const {
  MOH_CHECK(from <= to && to < num_marks_, "marks of this clock, in their order");
  if (from == to) return 0;
  return now_ ? times_[to] - times_[from] : cuda::seconds_between(events_[from], events_[to]);
}

}  // namespace moh
