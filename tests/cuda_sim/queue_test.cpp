// Two queues, fork and join, by themselves and captured: a wait that is missing shows in one of the timings.

#include "core/cuda/queue.h"

#include <cuda_runtime_api.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "core/cuda/backend.h"
#include "core/cuda/device.h"
#include "core/cuda/graph.h"
#include "core/error.h"
#include "core/host_copy.h"
#include "core/tensor.h"
#include "tests/cuda_sim/capture.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"
#include "tests/ops/device_ways.h"

using namespace moh;
using cuda::Queue;
using sim::Timing;

namespace {

constexpr std::array kTimings = {Timing::kAtOnce, Timing::kLate, Timing::kAhead};

Tensor number(double value) {
  const cuda::PersistentMemoryScope persistent;
  return full({}, value, DType::kFloat32, test::open_gpu());
}

/// Does `work` in the communication queue.
template <class DoWork>
void beside(DoWork&& work) {
  const cuda::QueueScope scope(Queue::kCommunication);
  work();
}

enum class Missing { kNothing, kFork, kJoin };

/// Doubles x in the compute queue, adds it to the sum in the other, and doubles the sum: 2 (sum + 2 x).
void fork_and_join(const Tensor& x, const Tensor& sum, Missing missing) {
  x.scale(2);
  if (missing != Missing::kFork) cuda::wait_for(Queue::kCommunication, Queue::kCompute);
  beside([&] { sum.add(x); });
  if (missing != Missing::kJoin) cuda::wait_for(Queue::kCompute, Queue::kCommunication);
  sum.scale(2);
}

/// In how many of the timings it gives the right result.
int right_timings(Missing missing) {
  int right = 0;
  for (const Timing timing : kTimings) {
    const Tensor x = number(3), sum = number(10);
    cuda::synchronize();
    const sim::Streams::TimingScope scope(timing);
    fork_and_join(x, sum, missing);
    cuda::synchronize();
    right += sum.item() == 32;
  }
  return right;
}

/// Right results of a graph that is replayed twice: x and sum become 6 and 32, then 12 and 88.
int right_replays(Missing missing) {
  int right = 0;
  for (const Timing timing : kTimings) {
    const Tensor x = number(3), sum = number(10), other = number(0);
    cuda::Graph graph;
    graph.capture([&] {
      cuda::wait_for(Queue::kCommunication, Queue::kCompute);
      x.scale(2);
      if (missing != Missing::kFork) cuda::wait_for(Queue::kCommunication, Queue::kCompute);
      beside([&] { sum.add(x); });
      if (missing != Missing::kJoin) cuda::wait_for(Queue::kCompute, Queue::kCommunication);
      sum.scale(2);
      cuda::wait_for(Queue::kCompute, Queue::kCommunication);
    });
    CHECK(graph.num_nodes() == 3);
    cuda::synchronize();
    const sim::Streams::TimingScope scope(timing);
    graph.launch();
    graph.launch();
    right += sum.item() == 88;
  }
  return right;
}

std::int64_t in_use() {
  return sim::DeviceMemory::instance().bytes_in_use();
}

constexpr int kAll = static_cast<int>(kTimings.size());

}  // namespace

TEST_CASE("sim: work of two queues is in the order of their waits, and a missing one shows", "[sim]") {
  CHECK(right_timings(Missing::kNothing) == kAll);
  CHECK(right_timings(Missing::kFork) < kAll);
  CHECK(right_timings(Missing::kJoin) < kAll);
}

TEST_CASE("sim: a captured fork and join is replayed by its edges alone, and a missing one shows", "[sim]") {
  CHECK(right_replays(Missing::kNothing) == kAll);
  CHECK(right_replays(Missing::kFork) < kAll);
  CHECK(right_replays(Missing::kJoin) < kAll);
}

TEST_CASE("sim: a queue runs ahead of another, or behind it, as its waits permit", "[sim]") {
  const auto order_with = [](Timing timing, bool waits) {
    test::open_gpu();
    std::string order;
    const sim::Streams::TimingScope scope(timing);
    sim::Streams& streams = sim::Streams::instance();
    const auto enqueue = [&](Queue queue, char name) {
      streams.submit(cuda::stream(queue), [&order, name] { order += name; });
    };
    enqueue(Queue::kCompute, 'a');
    if (waits) cuda::wait_for(Queue::kCommunication, Queue::kCompute);
    enqueue(Queue::kCommunication, 'x');
    enqueue(Queue::kCompute, 'b');
    enqueue(Queue::kCommunication, 'y');
    if (waits) cuda::wait_for(Queue::kCompute, Queue::kCommunication);
    enqueue(Queue::kCompute, 'c');
    streams.synchronize(cuda::stream(Queue::kCompute));
    streams.synchronize(cuda::stream(Queue::kCommunication));
    return order;
  };
  CHECK(order_with(Timing::kAtOnce, false) == "axbyc");
  CHECK(order_with(Timing::kLate, false) == "abcxy");
  CHECK(order_with(Timing::kAhead, false) == "xyabc");
  CHECK(order_with(Timing::kAtOnce, true) == "axbyc");
  CHECK(order_with(Timing::kLate, true) == "abxyc");
  CHECK(order_with(Timing::kAhead, true) == "axybc");
}

TEST_CASE("sim: an event may be recorded again while a wait for its last record is pending", "[sim]") {
  for (const Timing timing : kTimings) {
    const Tensor x = number(1), sum = number(0);
    cuda::synchronize();
    const sim::Streams::TimingScope scope(timing);
    double expected = 0;
    for (int i = 0; i < 10; ++i) {  // by one event: each addition sees the x of its turn
      cuda::wait_for(Queue::kCommunication, Queue::kCompute);
      beside([&] { sum.add(x); });
      cuda::wait_for(Queue::kCompute, Queue::kCommunication);
      expected += 1 << i;
      x.scale(2);
    }
    CHECK(sum.item() == expected);
  }
  // And after it has been part of a capture that ended, or broke.
  const Tensor x = number(1), sum = number(0);
  const auto fork = [&] {
    cuda::wait_for(Queue::kCommunication, Queue::kCompute);
    beside([&] { sum.add(x); });
  };
  cuda::Graph broken, graph;
  CHECK_THROWS_AS(broken.capture([&] {
    fork();
    throw ValueError("not to be captured");
  }),
                  ValueError);
  graph.capture([&] {
    fork();
    cuda::wait_for(Queue::kCompute, Queue::kCommunication);
  });
  fork();
  cuda::wait_for(Queue::kCompute, Queue::kCommunication);
  graph.launch();
  CHECK(sum.item() == 2);
}

TEST_CASE("sim: a capture that ends without its join is refused, and what follows is as before", "[sim]") {
  const Tensor x = number(1), sum = number(0);
  cuda::Graph graph;
  CHECK_THROWS_WITH(graph.capture([&] {
    cuda::wait_for(Queue::kCommunication, Queue::kCompute);
    beside([&] { sum.add(x); });
  }),
                    Catch::Contains("the compute queue has waited for the communication queue"));
  // So is a fork that nothing follows.
  CHECK_THROWS_AS(graph.capture([&] { cuda::wait_for(Queue::kCommunication, Queue::kCompute); }),
                  InternalError);
  CHECK_FALSE(graph.captured());
  CHECK(sum.item() == 0);
  beside([&] { sum.add(x); });
  cuda::synchronize();
  CHECK(sum.item() == 1);
}

TEST_CASE("sim: a capture and what is outside of it do not wait for each other", "[sim]") {
  const Tensor x = number(1);
  cuda::Graph graph;
  // The communication queue has not been forked: its work is none of the capture.
  CHECK_THROWS_WITH(graph.capture([&] { cuda::wait_for(Queue::kCompute, Queue::kCommunication); }),
                    Catch::Contains("cudaErrorStreamCaptureIsolation"));
  graph.capture([&] { beside([&] { x.scale(3); }); });
  CHECK(graph.num_nodes() == 0);
  cuda::synchronize();
  CHECK(x.item() == 3);

  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  CHECK(cudaStreamWaitEvent(cuda::stream(), event, 0) == cudaSuccess);  // which was never recorded
  cudaGraph_t made = nullptr;
  cudaStream_t beside = cuda::stream(Queue::kCommunication);
  REQUIRE(cudaStreamBeginCapture(cuda::stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  cudaEventRecord(event, cuda::stream());
  CHECK(cudaStreamWaitEvent(beside, event, 0) == cudaSuccess);
  CHECK(cudaStreamEndCapture(beside, &made) == cudaErrorStreamCaptureUnmatched);
  CHECK(cudaStreamEndCapture(cuda::stream(), &made) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaStreamWaitEvent(beside, event, 0) == cudaErrorCapturedEvent);
  cudaEventDestroy(event);
  cudaGetLastError();
}

TEST_CASE("sim: the host knows what the queue for which it has waited had waited for", "[sim]") {
  const Tensor x = number(1), other = number(5);
  const sim::Streams::TimingScope scope(Timing::kLate);
  void* const event = cuda::create_event();
  beside([&] { x.scale(2); });
  cuda::record_event(event, Queue::kCommunication);
  CHECK_FALSE(cuda::reached(event));
  CHECK(other.item() == 5);  // of the compute queue, which does not wait for it
  CHECK_FALSE(cuda::reached(event));
  cuda::wait_for(Queue::kCompute, Queue::kCommunication);
  CHECK(x.item() == 2);
  CHECK(cuda::reached(event));
  cuda::destroy_event(event);
}

TEST_CASE("sim: another thread may ask for events while a capture is under way", "[sim]") {
  const Tensor x = number(1);
  void* const event = cuda::create_event();
  cuda::record_event(event);
  cuda::Graph graph;
  graph.capture([&] {
    std::thread([&] { cuda::reached(event); }).join();
    x.scale(2);
  });
  CHECK_THROWS_WITH(cuda::Graph().capture([&] { cuda::reached(event); }),
                    Catch::Contains("cudaErrorStreamCaptureUnsupported"));
  graph.launch();
  CHECK(x.item() == 2);
  cuda::destroy_event(event);
}

TEST_CASE("sim: what goes into the communication queue is memory that lasts", "[sim]") {
  const Tensor lasting = number(1), passing = full({}, 1, DType::kFloat32, test::open_gpu());
  CHECK_NOTHROW(cuda::require_persistent(lasting.raw(), 4, "the gradients"));
  CHECK_THROWS_WITH(cuda::require_persistent(lasting.raw(), 5, "the gradients"),
                    Catch::Contains("the gradients: "));
  CHECK_THROWS_WITH(cuda::require_persistent(passing.raw(), 4, "the gradients"),
                    Catch::Contains("the gradients: "));
  beside([&] {
    CHECK_THROWS_WITH(empty({4}, DType::kFloat32, lasting.device()),
                      Catch::Contains("the communication queue does not allocate"));
    CHECK_THROWS_WITH(lasting.item(), Catch::Contains("does not copy to the host"));
    CHECK_THROWS_WITH(lasting.copy_from(full({}, 1, DType::kFloat32)),
                      Catch::Contains("does not copy from the host"));
  });
  cuda::Graph graph;
  CHECK_THROWS_WITH(graph.capture([&] { number(3); }),
                    Catch::Contains("does not allocate persistent memory"));
  const std::int64_t before = in_use();
  Tensor another = number(2);
  CHECK(in_use() == before + 4);
  another = Tensor();
  CHECK(in_use() == before);
}

TEST_CASE("sim: persistent memory that is released in a capture is freed after it", "[sim]") {
  Tensor before = number(1);
  const Tensor sum = number(3);
  const std::int64_t held = in_use();
  cuda::Graph graph;
  graph.capture([&] {
    before = Tensor();
    sum.add(sum);
  });
  graph.launch();
  CHECK(sum.item() == 6);
  CHECK(in_use() == held - 4);
}

TEST_CASE("sim: a thread of its own works with the device that is open, wherever it was before", "[sim]") {
  const Tensor x = number(1);
  setenv("MOH_SIM_GPUS", "2", 1);
  double found = 0;
  std::string refusal;
  std::thread([&] {
    cudaSetDevice(1);  // as a new thread is on device 0 where a program uses another
    void* refused = nullptr;
    try {
      cudaMalloc(&refused, 4);
    } catch (const sim::KernelFault& fault) {
      refusal = fault.what();
    }
    const cuda::PersistentMemoryScope persistent;
    const Tensor y = empty({}, DType::kFloat32, x.device());
    y.copy_from(x);
    void* const event = cuda::create_event();
    cuda::record_event(event);
    found = HostCopy(y).get().item();
    cuda::destroy_event(event);
  }).join();
  unsetenv("MOH_SIM_GPUS");
  CHECK_THAT(refusal, Catch::Contains("cudaMalloc in a thread that has not called cudaSetDevice"));
  CHECK(found == 1);
}
