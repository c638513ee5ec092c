#include "core/cuda/graph.h"

#include <cuda_runtime_api.h>

#include <string>
#include <utility>

#include "core/cuda/arena_scope.h"
#include "core/cuda/device.h"
#include "core/cuda/queue.h"
#include "core/device_clock.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

bool under_way = false;

/// A capture in progress. The destructor discards one that end() has not ended.
class Capture {
 public:
  Capture() {
    // Thread-local mode: CUDA calls of other threads do not invalidate the capture.
    MOH_CUDA_CALL(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal));
    under_way = true;
  }
  ~Capture() {
    if (!under_way) return;
    under_way = false;
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(stream(), &broken);
    if (broken != nullptr) cudaGraphDestroy(broken);
    cudaGetLastError();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  struct Result {
    cudaGraphExec_t ready = nullptr;
    std::size_t nodes = 0;
    double seconds = 0;  // of the instantiation
  };
  Result end() {
    under_way = false;
    cudaGraph_t graph = nullptr;
    const cudaError_t ended = cudaStreamEndCapture(stream(), &graph);
    if (ended == cudaErrorStreamCaptureUnjoined) {
      cudaGetLastError();
      throw InternalError(
          "a captured step ends before the compute queue has waited for the communication queue, which takes "
          "part in it");
    }
    check(ended, "cudaStreamEndCapture");
    Result result;
    cudaError_t status = cudaGraphGetNodes(graph, nullptr, &result.nodes);
    const double began = steady_seconds();
    if (status == cudaSuccess) status = cudaGraphInstantiate(&result.ready, graph, 0);
    result.seconds = steady_seconds() - began;
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
    return result;
  }
};

}  // namespace

bool capturing() {
  return under_way;
}

void require_no_capture(const char* what) {
  MOH_CHECK(!under_way, std::string("a captured step does not ") + what);
}

struct GraphMemory::Impl {
  SharedArena arena = make_arena();

  Impl() = default;
  ~Impl() { disown(arena); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

GraphMemory::GraphMemory() : impl_(std::make_shared<Impl>()) {}

bool GraphMemory::lend(FunctionRef<void()> work) const {
  const Arena::Mark before = mark_of(impl_->arena);
  {
    const ArenaScope memory(impl_->arena);
    work();
  }
  return return_to(impl_->arena, before);
}

struct Graph::Impl {
  std::shared_ptr<GraphMemory::Impl> memory;
  Capture::Result graph;

  explicit Impl(std::shared_ptr<GraphMemory::Impl> shared) : memory(std::move(shared)) {}
  ~Impl() {
    if (graph.ready != nullptr) cudaGraphExecDestroy(graph.ready);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
};

Graph::Graph(const GraphMemory& memory) : impl_(std::make_unique<Impl>(memory.impl_)) {}
Graph::~Graph() = default;

void Graph::rehearse(FunctionRef<void()> work) {
  MOH_CHECK(!captured(), "rehearse() would change the arena of a captured graph");
  const ArenaScope memory(impl_->memory->arena);
  work();
}

void Graph::capture(FunctionRef<void()> work) {
  MOH_CHECK(!captured(), "a graph is captured once");
  require_compute_queue("begin a capture");
  const ArenaScope memory(impl_->memory->arena);
  Capture capture;
  work();
  impl_->graph = capture.end();
}

bool Graph::captured() const {
  return impl_->graph.ready != nullptr;
}

std::size_t Graph::num_nodes() const {
  return impl_->graph.nodes;
}

double Graph::instantiation_seconds() const {
  return impl_->graph.seconds;
}

void Graph::launch() {
  MOH_CHECK(captured(), "capture() comes first");
  require_compute_queue("launch a graph");
  trim_pool();
  MOH_CUDA_CALL(cudaGraphLaunch(impl_->graph.ready, stream()));
}

}  // namespace moh::cuda
