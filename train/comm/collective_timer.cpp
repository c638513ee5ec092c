#include "train/comm/collective_timer.h"

#include <utility>

#include "core/cuda/backend.h"
#include "core/cuda/queue.h"

namespace moh {

CollectiveTimer::CollectiveTimer() : origin_(cuda::create_event()) {
  cuda::record_event(origin_);
}

CollectiveTimer::~CollectiveTimer() {
  cuda::destroy_event(origin_);
  for (const Timed& each : timed_) {
    cuda::destroy_event(each.begin);
    cuda::destroy_event(each.end);
  }
}

void CollectiveTimer::begin(std::string name, std::size_t bytes) {
  timed_.push_back({std::move(name), bytes, cuda::create_event(), cuda::create_event()});
  cuda::record_event(timed_.back().begin, cuda::Queue::kCommunication);
}

void CollectiveTimer::end() {
  cuda::record_event(timed_.back().end, cuda::Queue::kCommunication);
}

std::vector<CollectiveTimer::Span> CollectiveTimer::spans() const {
  std::vector<Span> spans;
  for (const Timed& each : timed_) {
    spans.push_back({each.name, each.bytes, cuda::seconds_between(origin_, each.begin),
                     cuda::seconds_between(origin_, each.end)});
  }
  return spans;
}

}  // namespace moh
