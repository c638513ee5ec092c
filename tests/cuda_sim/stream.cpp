#include "tests/cuda_sim/stream.h"

#include <algorithm>
#include <exception>
#include <numeric>
#include <utility>

#include "tests/cuda_sim/capture.h"

namespace moh::sim {

namespace {

std::int64_t at(const std::vector<std::int64_t>& numbers, std::size_t stream) {
  return stream < numbers.size() ? numbers[stream] : 0;
}

/// How many items of its own stream are before the mark.
std::int64_t finished_before(const Mark& mark) {
  return at(mark.done, mark.stream);
}

void raise_to(std::vector<std::int64_t>& numbers, const std::vector<std::int64_t>& others) {
  numbers.resize(std::max(numbers.size(), others.size()));
  for (std::size_t i = 0; i < others.size(); ++i) numbers[i] = std::max(numbers[i], others[i]);
}

}  // namespace

Streams& Streams::instance() {
  static auto* streams = new Streams;
  return *streams;
}

CUstream_st* Streams::create(int priority) {
  streams_.push_back({{streams_.size()}, priority});
  streams_.back().done.resize(streams_.size());
  return &streams_.back().handle;
}

void Streams::submit(const CUstream_st* stream, Work work) {
  if (Capture* const capture = Capture::of(stream)) return capture->add(stream, std::move(work));
  push(streams_.at(stream->number), {std::move(work), {}});
}

void Streams::submit_wait(const CUstream_st* stream, const Mark& mark) {
  push(streams_.at(stream->number), {{}, mark});
}

void Streams::push(Stream& stream, Item item) {
  if (item.after) raise_to(stream.done, item.after->done);
  ++stream.done.at(stream.handle.number);
  stream.pending.push_back(std::move(item));
  if (timing_ == Timing::kAtOnce) run_until(stream.handle.number, finished_before(mark(&stream.handle)));
  if (timing_ == Timing::kAhead) run_ahead();
}

Mark Streams::mark(const CUstream_st* stream) const {
  return {stream->number, streams_.at(stream->number).done};
}

bool Streams::known_done(const Mark& mark) const {
  const std::lock_guard lock(known_mutex_);
  return finished_before(mark) <= at(known_, mark.stream);
}

void Streams::wait_for(const Mark& mark) {
  if (known_done(mark)) return;
  ++waits_;
  run_until(mark.stream, finished_before(mark));
  const std::lock_guard lock(known_mutex_);
  raise_to(known_, mark.done);
}

void Streams::synchronize(const CUstream_st* stream) {
  const Mark end = mark(stream);
  if (known_done(end) && finished_before(end) > 0) ++waits_;  // which is a call that waits, whatever it finds
  wait_for(end);
}

void Streams::synchronize() {
  for (const Stream& stream : streams_) wait_for(mark(&stream.handle));
}

void Streams::run_until(std::size_t stream, std::int64_t finished) {
  Stream& own = streams_.at(stream);
  while (own.finished < finished) run_next(own);
}

void Streams::run_next(Stream& stream) {
  if (const std::optional<Mark>& after = stream.pending.front().after)
    run_until(after->stream, finished_before(*after));
  const Item item = std::move(stream.pending.front());
  stream.pending.pop_front();
  ++stream.finished;
  if (item.work) item.work();
  if (timing_ == Timing::kAhead) run_ahead();
}

/// Does what streams of a higher priority can do now.
void Streams::run_ahead() {
  if (std::exchange(running_ahead_, true)) return;
  struct End {
    bool& running;
    ~End() { running = false; }
  } const end{running_ahead_};
  const auto can_run = [this](const Stream& stream) {
    if (stream.priority >= 0 || stream.pending.empty()) return false;
    const std::optional<Mark>& after = stream.pending.front().after;
    return !after || streams_.at(after->stream).finished >= finished_before(*after);
  };
  for (auto next = streams_.begin(); next != streams_.end();) {
    next = std::find_if(streams_.begin(), streams_.end(), can_run);
    if (next != streams_.end()) run_next(*next);
  }
}

std::vector<std::size_t> Streams::in_order() const {
  std::vector<std::size_t> order(streams_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto rank = [this](std::size_t i) {
    return timing_ == Timing::kAhead ? streams_[i].priority : -streams_[i].priority;
  };
  std::ranges::stable_sort(order, {}, rank);
  return order;
}

Streams::TimingScope::TimingScope(Timing timing) : previous_(std::exchange(instance().timing_, timing)) {}

Streams::TimingScope::~TimingScope() noexcept(false) {
  struct End {
    Timing previous;
    ~End() { instance().timing_ = previous; }
  } const end{previous_};
  if (std::uncaught_exceptions() == 0) instance().synchronize();
}

}  // namespace moh::sim
