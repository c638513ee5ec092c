#include "core/cuda/launch_timer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/cuda/memory_blocks.h"
#include "core/error.h"

namespace moh::cuda {

LaunchTimer::LaunchTimer(DeviceClock& clock, std::function<std::size_t()> context)
    : clock_(clock), context_(std::move(context)) {
  MOH_CHECK(current_ == nullptr, "one timer of launches at a time");
  current_ = this;
}

LaunchTimer::~LaunchTimer() {
  current_ = nullptr;
}

void LaunchTimer::begin(const char* name, const KernelResources& resources) {
  blocks_.clear();
  spans_.push_back({{.name = name, .context = context_(), .resources = resources}, clock_.mark()});
}

// Only addresses of device memory are in the table of blocks: no other number of 64 bits is taken for one.
void LaunchTimer::add_argument(const void* argument, std::size_t bytes) {
  for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    const void* address = nullptr;
    std::memcpy(&address, static_cast<const std::byte*>(argument) + at, sizeof address);
    const MemoryBlock block = block_at(address);
    if (block.bytes > 0 && blocks_.insert(block.begin).second)
      spans_.back().launch.bytes += static_cast<std::int64_t>(block.bytes);
  }
}

// A library's call may itself launch kernels of moh, which end before it does.
void LaunchTimer::end() {
  const auto open =
      std::find_if(spans_.rbegin(), spans_.rend(), [](const Span& span) { return !span.ended; });
  MOH_CHECK(open != spans_.rend(), "begin() comes first");
  open->end = clock_.mark();
  open->ended = true;
}

std::vector<TimedLaunch> LaunchTimer::launches() const {
  std::vector<TimedLaunch> launches;
  for (const Span& span : spans_) {
    if (!span.ended) continue;
    launches.push_back(span.launch);
    launches.back().seconds = clock_.seconds(span.begin, span.end);
  }
  return launches;
}

void timed_call(const char* name, std::initializer_list<const void*> addresses, FunctionRef<void()> call) {
  LaunchTimer* const timer = LaunchTimer::current();
  if (timer == nullptr) return call();
  timer->begin(name);
  for (const void* address : addresses) timer->add_argument(&address, sizeof address);
  call();
  timer->end();
}

}  // namespace moh::cuda
