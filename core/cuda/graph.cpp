#include "core/cuda/graph.h"

#include <cuda_runtime_api.h>

#include <string>

#include "core/cuda/arena_scope.h"
#include "core/cuda/device.h"
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

  cudaGraphExec_t end() {
    under_way = false;
    cudaGraph_t graph = nullptr;
    MOH_CUDA_CALL(cudaStreamEndCapture(stream(), &graph));
    cudaGraphExec_t ready = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphDestroy(graph);
    check(status, "cudaGraphInstantiate");
    return ready;
  }
};

}  // namespace

bool capturing() {
  return under_way;
}

void require_no_capture(const char* what) {
  MOH_CHECK(!under_way, std::string("a captured step does not ") + what);
}

struct Graph::Impl {
  SharedArena arena = make_arena();
  cudaGraphExec_t ready = nullptr;

  ~Impl() {
    if (ready != nullptr) cudaGraphExecDestroy(ready);
    disown(arena);
  }
};

Graph::Graph() : impl_(std::make_unique<Impl>()) {}
Graph::~Graph() = default;

void Graph::rehearse(FunctionRef<void()> work) {
  MOH_CHECK(!captured(), "rehearse() would change the arena of a captured graph");
  const ArenaScope memory(impl_->arena);
  work();
}

void Graph::capture(FunctionRef<void()> work) {
  MOH_CHECK(!captured(), "a graph is captured once");
  const ArenaScope memory(impl_->arena);
  Capture capture;
  work();
  impl_->ready = capture.end();
}

bool Graph::captured() const {
  return impl_->ready != nullptr;
}

void Graph::launch() {
  MOH_CHECK(captured(), "capture() comes first");
  MOH_CUDA_CALL(cudaGraphLaunch(impl_->ready, stream()));
}

}  // namespace moh::cuda
