#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "tests/cuda_sim/stream.h"

namespace moh::sim {

/// A node that a capture makes of a call: work, or nothing but an order of others, and the nodes that come
/// before.
struct GraphNode {
  std::size_t stream;  ///< that it was captured from
  Work work;
  std::vector<std::size_t> after;
};

/// Captured work. It is done in an order that its edges permit, and nothing else: not that of the calls.
class CapturedGraph {
 public:
  explicit CapturedGraph(std::vector<GraphNode> nodes) : nodes_(std::move(nodes)) {}

  /// Nodes that do something.
  std::size_t size() const;
  /// Does the work, in an order that follows the timing of the streams.
  void run() const;

 private:
  void run_by_stream() const;

  std::vector<GraphNode> nodes_;
};

/// A capture in progress, of which there is one at a time: of the stream that began it, and of those that
/// wait for an event recorded in it.
class Capture {
 public:
  /// The one in progress, or null.
  static Capture* current() { return current_.get(); }
  /// The one in progress if the stream takes part in it, or null.
  static Capture* of(const CUstream_st* stream);
  static Capture& begin(const CUstream_st* stream);
  /// Ends the one in progress.
  static std::unique_ptr<Capture> end();

  /// The number of this capture among all.
  std::int64_t number() const { return number_; }
  bool began_in(const CUstream_st* stream) const { return stream->number == origin_; }
  /// Whether the calling thread began it: those of others are none of its concern.
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
  /// By a call that CUDA forbids meanwhile.
  void break_off() { broken_ = true; }
  bool broken() const { return broken_; }

  void add(const CUstream_st* stream, Work work);
  /// The last nodes of a stream: what an event that is recorded now stands for.
  const std::vector<std::size_t>& last_of(const CUstream_st* stream) const;
  /// The stream takes part from now on, and its subsequent work comes after the nodes as well.
  void join(const CUstream_st* stream, const std::vector<std::size_t>& nodes);
  /// Whether everything comes before the end of the stream that began.
  bool all_joined() const;
  CapturedGraph graph() const { return CapturedGraph(nodes_); }

 private:
  explicit Capture(const CUstream_st* origin);

  static std::unique_ptr<Capture> current_;
  static std::int64_t captures_;
  std::size_t origin_;
  std::int64_t number_;
  std::thread::id thread_ = std::this_thread::get_id();
  bool broken_ = false;
  std::vector<GraphNode> nodes_;
  std::map<std::size_t, std::vector<std::size_t>> last_;  // of the streams that take part
};

}  // namespace moh::sim
