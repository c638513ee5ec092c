#include "train/run/step_graphs.h"

#include <utility>

namespace moh {

void StepGraphs::begin_step(std::int64_t size) {
  if (captured_) {
    how_ = size == size_ ? How::kReplayed : How::kEager;
    return;
  }
  if (std::exchange(size_, size) != size) rehearsed_ = 0;
  captured_ = rehearsed_ == kRehearsals;
  how_ = captured_ ? How::kReplayed : How::kRehearsed;
  if (graphs_ != nullptr) return;
  const cuda::GraphMemory memory;
  using Stages = std::array<cuda::Graph, 4>;
  graphs_.reset(
      new Stages{cuda::Graph(memory), cuda::Graph(memory), cuda::Graph(memory), cuda::Graph(memory)});
}

void StepGraphs::run(StepStage stage, FunctionRef<void()> work) {
  if (how_ == How::kEager) return work();
  cuda::Graph& graph = graphs_->at(static_cast<std::size_t>(stage));
  if (how_ == How::kRehearsed) return graph.rehearse(work);
  if (!graph.captured()) graph.capture(work);
  graph.launch();
}

void StepGraphs::end_step() {
  if (how_ == How::kRehearsed) ++rehearsed_;
}

void StepGraphs::reset() {
  graphs_.reset();
  size_ = -1;
  rehearsed_ = 0;
  captured_ = false;
  how_ = How::kEager;
}

std::size_t StepGraphs::num_nodes() const {
  std::size_t nodes = 0;
  if (graphs_ == nullptr) return 0;
  for (const cuda::Graph& graph : *graphs_) nodes += graph.num_nodes();
  return nodes;
}

}  // namespace moh
