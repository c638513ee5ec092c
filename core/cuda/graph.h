#pragma once

#include <cstddef>
#include <memory>

#include "core/function_ref.h"

namespace moh::cuda {

/// The arena of graphs whose launches follow one another in the stream: what a graph needs only while it runs
/// is free for the next, and what it leaves behind stays. A handle.
class GraphMemory {
 public:
  GraphMemory();

  /// Does other work between two launches, with memory that only the launches need. False if the allocated
  /// blocks are not those of before: a launch would overwrite one that is new, so that graphs have to be
  /// captured anew.
  bool lend(FunctionRef<void()> work) const;

 private:
  friend class Graph;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A CUDA graph: work that is captured once and then launched as a whole. It repeats the same kernels with
/// the same arguments and addresses, so what changes from one launch to the next has to be in device memory,
/// and the work must not wait for the device or copy from the host.
///
/// The work allocates from an arena that belongs to the graph, or to a few that share it: allocations
/// captured into the graph would all have to be freed by its end, and blocks of the common pool could be
/// reused by others between two launches. So the results of a launch stay valid until the next launch
/// overwrites them.
class Graph {
 public:
  Graph() : Graph(GraphMemory()) {}
  explicit Graph(const GraphMemory& memory);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Runs the work eagerly, with memory of the arena: a warm-up, to be repeated before capture() until
  /// kernels and libraries are loaded, tables are built and the arena is large enough.
  void rehearse(FunctionRef<void()> work);
  /// Captures the work without running it. Throws what the work throws, and DeviceError for what cannot be
  /// captured; the graph stays empty then.
  void capture(FunctionRef<void()> work);
  bool captured() const;
  /// Kernels, copies and other nodes of the captured graph.
  std::size_t num_nodes() const;
  /// Seconds of the host that the driver took to make the captured graph ready for launches; 0 before.
  double instantiation_seconds() const;
  /// Enqueues the captured work.
  void launch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moh::cuda
