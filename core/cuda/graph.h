#pragma once

#include <memory>

#include "core/function_ref.h"

namespace moh::cuda {

/// Work for the GPU that is recorded once and then asked for as a whole: a CUDA graph. It repeats the very
/// same kernels on the very same addresses, so what changes from one time to the next has to lie in device
/// memory, and the work must not wait for the device or copy from the host.
///
/// The work's memory is an arena, which belongs to the graph alone: a graph with allocations of its own would
/// have to free all of them by its end, and memory of the common pool could be handed out to others between
/// two launches. So what the work leaves behind stays where it is, until the next launch overwrites it.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  /// Does the work, with memory of the arena. Before capture(), until the work needs nothing for the first
  /// time: kernels and libraries are loaded, tables are made, the arena is large enough.
  void rehearse(FunctionRef<void()> work);
  /// Records the work without doing it. Throws what the work throws, and DeviceError for what cannot be
  /// recorded; nothing is captured then.
  void capture(FunctionRef<void()> work);
  bool captured() const;
  /// Asks for the captured work.
  void launch();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moh::cuda
