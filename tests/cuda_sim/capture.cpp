#include "tests/cuda_sim/capture.h"

#include <algorithm>
#include <deque>
#include <utility>

namespace moh::sim {

std::unique_ptr<Capture> Capture::current_;
std::int64_t Capture::captures_ = 0;

std::size_t CapturedGraph::size() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(nodes_, [](const GraphNode& n) { return n.work != nullptr; }));
}

void CapturedGraph::run() const {
  if (Streams::instance().timing() != Timing::kAtOnce) return run_by_stream();
  for (const GraphNode& node : nodes_) {
    if (node.work) node.work();
  }
}

/// The next node is the first one that can run of the first stream that has one.
void CapturedGraph::run_by_stream() const {
  std::map<std::size_t, std::deque<std::size_t>> left;
  for (std::size_t i = 0; i < nodes_.size(); ++i) left[nodes_[i].stream].push_back(i);
  std::vector<bool> done(nodes_.size(), false);
  const std::vector<std::size_t> streams = Streams::instance().in_order();
  const auto can_run = [&](std::size_t stream) {
    if (left[stream].empty()) return false;
    return std::ranges::all_of(nodes_[left[stream].front()].after,
                               [&](std::size_t node) { return done[node]; });
  };
  for (std::size_t ran = 0; ran < nodes_.size(); ++ran) {
    const auto stream = std::ranges::find_if(streams, can_run);  // there is one: edges lead to later nodes
    const std::size_t next = left[*stream].front();
    left[*stream].pop_front();
    done[next] = true;
    if (nodes_[next].work) nodes_[next].work();
  }
}

Capture::Capture(const CUstream_st* origin) : origin_(origin->number), number_(++captures_) {
  last_[origin_] = {};
}

Capture* Capture::of(const CUstream_st* stream) {
  return current_ != nullptr && current_->last_.contains(stream->number) ? current() : nullptr;
}

Capture& Capture::begin(const CUstream_st* stream) {
  current_.reset(new Capture(stream));
  return *current_;
}

std::unique_ptr<Capture> Capture::end() {
  return std::exchange(current_, nullptr);
}

void Capture::add(const CUstream_st* stream, Work work) {
  std::vector<std::size_t>& last = last_.at(stream->number);
  nodes_.push_back({stream->number, std::move(work), std::move(last)});
  last = {nodes_.size() - 1};
}

const std::vector<std::size_t>& Capture::last_of(const CUstream_st* stream) const {
  return last_.at(stream->number);
}

void Capture::join(const CUstream_st* stream, const std::vector<std::size_t>& nodes) {
  std::vector<std::size_t>& last = last_[stream->number];
  last.insert(last.end(), nodes.begin(), nodes.end());
  add(stream, {});
}

bool Capture::all_joined() const {
  std::vector<bool> reached(nodes_.size(), false);
  for (const std::size_t node : last_.at(origin_)) reached[node] = true;
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    if (!reached[i]) continue;
    for (const std::size_t before : nodes_[i].after) reached[before] = true;
  }
  return std::ranges::find(reached, false) == reached.end();
}

}  // namespace moh::sim
