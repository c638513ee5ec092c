#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/cuda/graph.h"
#include "core/function_ref.h"

namespace moh {

/// The parts of a training step that are captured, each as a graph of its own, however many micro-batches a
/// step has.
enum class StepStage : std::uint8_t {
  kFirstMicroBatch,  ///< its gradients overwrite those of the step before
  kNextMicroBatch,   ///< its gradients are added; launched for each micro-batch in the middle
  kLastMicroBatch,   ///< of several processes: its gradients, added or the only ones, are summed over them
  kUpdate,
  kCountLoads,  ///< before all others, for each micro-batch, where a load-balance loss is over the step
};

/// Runs the stages of training steps: the first kRehearsals steps of a size kernel by kernel, then captured
/// and replayed. Steps of another size than the captured one are always run kernel by kernel.
class StepGraphs {
 public:
  /// Steps of one size before the capture: the first loads kernels and libraries and allocates what lasts,
  /// the second already allocates as the captured step will.
  static constexpr int kRehearsals = 2;

  /// Begins a step, which enqueues the same work as others of the same `size`: the items of the task that
  /// each process computes. As these are known to all processes, so is whether a step is captured or
  /// replayed.
  void begin_step(const std::vector<std::int64_t>& size);
  /// Does `work`, or replays what it did when it was captured.
  void run(StepStage stage, FunctionRef<void()> work);
  /// The step that was begun has run all its stages.
  void end_step();
  /// Does other work between two steps, none of which is under way, with the memory that captured steps need
  /// while they run. If some of what it allocates lasts, subsequent steps are captured anew, beside it.
  void lend(FunctionRef<void()> work);
  /// Forgets what is captured: from the next step on other work is done.
  void reset();

  /// Whether the step that was begun, or the last one, is replayed.
  bool replays() const { return how_ == How::kReplayed; }
  bool captured() const { return captured_; }
  /// Nodes of the graphs of all stages.
  std::size_t num_nodes() const;
  /// Seconds that their instantiation took.
  double instantiation_seconds() const;

 private:
  void forget();

  enum class How { kEager, kRehearsed, kReplayed };
  std::optional<cuda::GraphMemory> memory_;
  std::map<StepStage, cuda::Graph> graphs_;
  std::vector<std::int64_t> size_;  // of the steps that are rehearsed or captured
  int rehearsed_ = 0;               // consecutive steps of that size
  bool captured_ = false;
  How how_ = How::kEager;
};

}  // namespace moh
