#include "train/trainer/run/step_graphs.h"

#include <utility>

namespace moh {

void StepGraphs::begin_step(const std::vector<std::int64_t>& size) {
  if (captured_) {
    how_ = size == size_ ? How::kReplayed : How::kEager;
    return;
  }
  if (std::exchange(size_, size) != size) rehearsed_ = 0;
  captured_ = rehearsed_ == kRehearsals;
  how_ = captured_ ? How::kReplayed : How::kRehearsed;
  if (!memory_) memory_.emplace();
}

void StepGraphs::run(StepStage stage, FunctionRef<void()> work) {
  if (how_ == How::kEager) return work();
  cuda::Graph& graph = graphs_.try_emplace(stage, *memory_).first->second;
  if (how_ == How::kRehearsed) return graph.rehearse(work);
  if (!graph.captured()) graph.capture(work);
  graph.launch();
}

void StepGraphs::end_step() {
  if (how_ == How::kRehearsed) ++rehearsed_;
}

void StepGraphs::lend(FunctionRef<void()> work) {
  if (!captured_) return work();
  if (!memory_->lend(work)) forget();
}

void StepGraphs::reset() {
  forget();
  memory_.reset();
  size_.clear();
}

void StepGraphs::forget() {
  graphs_.clear();
  rehearsed_ = 0;
  captured_ = false;
  how_ = How::kEager;
}

std::size_t StepGraphs::num_nodes() const {
  std::size_t nodes = 0;
  for (const auto& [stage, graph] : graphs_) nodes += graph.num_nodes();
  return nodes;
}

double StepGraphs::instantiation_seconds() const {
  double seconds = 0;
  for (const auto& [stage, graph] : graphs_) seconds += graph.instantiation_seconds();
  return seconds;
}

}  // namespace moh
