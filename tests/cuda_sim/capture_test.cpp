#include <cuda_runtime_api.h>

#include <array>
#include <catch2/catch.hpp>
#include <vector>

#include "core/copy_to_row.h"
#include "core/cuda/backend.h"
#include "core/cuda/device.h"
#include "core/cuda/graph.h"
#include "core/error.h"
#include "core/host_copy.h"
#include "core/random.h"
#include "ops/dropout/drop_path.h"
#include "ops/optim/ema.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/stream.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"

using namespace moh;

namespace {

Tensor number(double value) {
  return full({}, value, DType::kFloat32, test::open_gpu());
}

/// The end of a capture in which `calls` were made.
template <class Calls>
cudaError_t end_of_capture(Calls&& calls) {
  test::open_gpu();
  REQUIRE(cudaStreamBeginCapture(cuda::stream(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  calls();
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(cuda::stream(), &graph);
  CHECK((graph != nullptr) == (status == cudaSuccess));
  if (graph != nullptr) cudaGraphDestroy(graph);
  cudaGetLastError();
  return status;
}

}  // namespace

TEST_CASE("sim: what CUDA forbids in a capture is answered as CUDA does, and breaks it", "[sim]") {
  const Tensor x = number(1);
  float on_host = 0;
  void* block = nullptr;
  CHECK(end_of_capture([] {}) == cudaSuccess);
  CHECK(end_of_capture([] {
          CHECK(cudaStreamSynchronize(cuda::stream()) == cudaErrorStreamCaptureUnsupported);
        }) == cudaErrorStreamCaptureInvalidated);
  CHECK(end_of_capture([&] {
          CHECK(cudaMemcpyAsync(x.raw(), &on_host, 4, cudaMemcpyHostToDevice, cuda::stream()) ==
                cudaErrorStreamCaptureUnsupported);
          // From then on nothing goes.
          CHECK(cudaMemsetAsync(x.raw(), 0, 4, cuda::stream()) == cudaErrorStreamCaptureInvalidated);
          CHECK_THROWS_WITH(x.fill(2), Catch::Contains("kernel fill: cudaErrorStreamCaptureInvalidated") ||
                                           Catch::Contains("cudaErrorStreamCaptureInvalidated"));
        }) == cudaErrorStreamCaptureInvalidated);
  CHECK(end_of_capture([&] {
          CHECK(cudaMemcpyAsync(&on_host, x.raw(), 4, cudaMemcpyDeviceToHost, cuda::stream()) ==
                cudaErrorStreamCaptureUnsupported);
        }) == cudaErrorStreamCaptureInvalidated);
  CHECK(end_of_capture([&] { CHECK(cudaMalloc(&block, 64) == cudaErrorStreamCaptureUnsupported); }) ==
        cudaErrorStreamCaptureInvalidated);
  CHECK(end_of_capture([&] { CHECK(cudaMallocHost(&block, 64) == cudaErrorStreamCaptureUnsupported); }) ==
        cudaErrorStreamCaptureInvalidated);
  CHECK(end_of_capture([&] {
          CHECK(cudaStreamBeginCapture(cuda::stream(), cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
        }) == cudaSuccess);
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  for (const auto ask : {cudaEventQuery, cudaEventSynchronize}) {
    cudaEventRecord(event, cuda::stream());
    CHECK(end_of_capture([&] { CHECK(ask(event) == cudaErrorStreamCaptureUnsupported); }) ==
          cudaErrorStreamCaptureInvalidated);
  }
  CHECK(end_of_capture([&] { cudaEventRecord(event, cuda::stream()); }) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaErrorCapturedEvent);
  CHECK(cudaEventSynchronize(event) == cudaErrorCapturedEvent);
  cudaEventDestroy(event);
  cudaGetLastError();
  end_of_capture([&] {
    CHECK_THROWS_AS(cudaMallocAsync(&block, 64, cuda::stream()), sim::KernelFault);
    CHECK_THROWS_AS(cudaFreeAsync(x.raw(), cuda::stream()), sim::KernelFault);
  });
  CHECK(x.item() == 1);  // nothing of all this was done
}

TEST_CASE("sim: a captured step drops other samples each time, and averages what they come to", "[sim]") {
  constexpr std::int64_t kSamples = 37;
  const Tensor ones = full({kSamples}, 1, DType::kFloat32), expected = zeros({kSamples}, DType::kFloat32);
  const Device gpu = test::open_gpu();
  const Variable x(ones.to(gpu));
  const Tensor value = ones.to(gpu).clone(), average = zeros({kSamples}, DType::kFloat32, gpu);
  const Tensor first_stream = zeros({}, DType::kInt64, gpu);
  const EmaUpdate ema({{average, value}});
  const auto work = [&] {
    value.copy_from(drop_path(x, 0.5, Generator(3, first_stream).next()).value());
    ema.update(0.75);
  };
  cuda::Graph graph;
  for (const std::uint64_t step : {0, 1, 2, 3}) {
    first_stream.fill(static_cast<double>(Generator::first_stream_of(step)));
    if (step == 0) graph.rehearse(work);
    if (step == 1) graph.capture(work);
    if (step > 0) graph.launch();
    const Tensor here = drop_path(Variable(ones), 0.5, Generator(3, step).next()).value();
    EmaUpdate({{expected, here}}).update(0.75);
    test::check_close(average.to(kCpu), expected, 1e-6, "step " + std::to_string(step));
  }
}

TEST_CASE("sim: a captured average has the decay that lies in memory when it is launched", "[sim]") {
  constexpr std::int64_t kElements = 37;
  const Device gpu = test::open_gpu();
  const Tensor value = full({kElements}, 2, DType::kFloat32), expected = zeros({kElements}, DType::kFloat32);
  const Tensor on_gpu = value.to(gpu), average = expected.to(gpu), rate = zeros({}, DType::kFloat64, gpu);
  const EmaUpdate ema({{average, on_gpu}});
  cuda::Graph graph;
  const auto work = [&] { ema.update_by(rate); };
  for (const int step : {0, 1, 2, 3}) {
    const double decay = (1.0 + step) / (10 + step);
    rate.fill(1 - decay);
    if (step == 0) graph.rehearse(work);
    if (step == 1) graph.capture(work);
    if (step > 0) graph.launch();
    EmaUpdate({{expected, value}}).update(decay);
    test::check_close(average.to(kCpu), expected, 1e-6, "step " + std::to_string(step));
  }
}

TEST_CASE("sim: a graph does its work when it is launched, on what its operands hold then", "[sim]") {
  for (const bool late : {false, true}) {
    const sim::Streams::TimingScope scope(late ? sim::Timing::kLate : sim::Timing::kAtOnce);
    const Tensor in = number(1), sum = number(0);
    cuda::Graph graph;
    const auto work = [&] {
      const Tensor twice = in.clone();  // memory of the arena
      twice.scale(2);
      sum.add(twice);
    };
    graph.rehearse(work);
    CHECK(sum.item() == 2);
    const cuda::Graph other;  // an arena that is not used
    graph.capture(work);
    CHECK(graph.captured());
    CHECK(sum.item() == 2);
    in.fill(10);
    graph.launch();
    CHECK(sum.item() == 22);
    const std::vector<Tensor> others(5, in.clone());  // of the common pool, at the same time
    in.fill(100);
    graph.launch();
    graph.launch();
    CHECK(sum.item() == 422);
    CHECK(others[4].item() == 10);
    CHECK_THROWS_AS(graph.capture(work), InternalError);
    CHECK_THROWS_AS(graph.rehearse(work), InternalError);
  }
}

TEST_CASE(
    "sim: graphs that share their memory use the same, one after the other, and keep what they leave behind",
    "[sim]") {
  const Device gpu = test::open_gpu();
  const Tensor in = number(2), sum = number(0);
  const cuda::GraphMemory memory;
  cuda::Graph first(memory), second(memory);
  Tensor left;
  const auto begin = [&] {
    const Tensor large = full({3 << 20}, 1, DType::kFloat32, gpu);
    left = in.clone();
  };
  const auto add = [&] {
    const Tensor large = full({2 << 20}, 1, DType::kFloat32, gpu);
    sum.add(left);
  };
  first.rehearse(begin);
  const std::int64_t in_use = sim::DeviceMemory::instance().bytes_in_use();
  second.rehearse(add);
  CHECK(sim::DeviceMemory::instance().bytes_in_use() == in_use);
  CHECK(sum.item() == 2);
  first.capture(begin);
  second.capture(add);
  CHECK(first.num_nodes() == 2);
  CHECK(second.num_nodes() == 2);
  in.fill(5);
  first.launch();
  for (int i = 0; i < 3; ++i) second.launch();
  CHECK(sum.item() == 17);
}

TEST_CASE("sim: a captured copy goes to the row whose number is in device memory", "[sim]") {
  const Device gpu = test::open_gpu();
  const Tensor rows = zeros({3, 2}, DType::kFloat64, gpu), number = zeros({}, DType::kInt64, gpu);
  const std::vector<Tensor> row = {zeros({1}, DType::kFloat64, gpu), zeros({1}, DType::kFloat32, gpu)};
  cuda::Graph graph;
  const auto work = [&] { copy_to_row(rows, number, row); };
  graph.rehearse(work);
  graph.capture(work);
  for (const int at : {2, 0}) {
    number.fill(at);
    for (const Tensor& part : row) part.fill(10 + at);
    graph.launch();
  }
  const Tensor found = rows.to(kCpu);
  CHECK(std::vector<double>(found.data<double>(), found.data<double>() + 6) ==
        std::vector<double>{10, 10, 0, 0, 12, 12});
}

TEST_CASE("sim: a graph gets the memory that the pool keeps and does not use", "[sim]") {
  sim::DeviceMemory& memory = sim::DeviceMemory::instance();
  constexpr std::int64_t kLarge = 64 << 20;
  const auto use = [](std::int64_t bytes) { empty({bytes}, DType::kUInt8, test::open_gpu()); };
  use(kLarge);  // as an evaluation does
  memory.set_limit(sim::DeviceMemory::kBytes - memory.free_bytes() + kLarge / 4);
  cuda::Graph graph;
  CHECK_NOTHROW(graph.rehearse([&] { use(kLarge / 2); }));
  CHECK_THROWS_AS(graph.rehearse([&] { use(2 * kLarge); }), MemoryError);
  memory.set_limit(sim::DeviceMemory::kBytes);
}

TEST_CASE("sim: memory that is released and not yet free is waited for, else what is held is said", "[sim]") {
  sim::DeviceMemory& memory = sim::DeviceMemory::instance();
  constexpr std::int64_t kLarge = 64 << 20;
  const Device gpu = test::open_gpu();
  const sim::Streams::TimingScope late(sim::Timing::kLate);
  Tensor before = empty({kLarge}, DType::kUInt8, gpu);
  memory.set_limit(sim::DeviceMemory::kBytes - memory.free_bytes() + kLarge / 4);
  before = Tensor();  // which the device has yet to reach
  cuda::Graph graph;
  CHECK_NOTHROW(graph.rehearse([&] { empty({kLarge / 2}, DType::kUInt8, gpu); }));
  const std::int64_t waits = sim::Streams::instance().waits();
  CHECK_THROWS_WITH(empty({2 * kLarge}, DType::kUInt8, gpu),
                    Catch::StartsWith("cuda memory: expected 134217728 more bytes, but the device refused") &&
                        Catch::Contains("held by the pool") && Catch::Contains("by captured work"));
  CHECK(sim::Streams::instance().waits() == waits + 1);
  memory.set_limit(sim::DeviceMemory::kBytes);
}

TEST_CASE("sim: what an evaluation took from the pool is given back when captured work goes on", "[sim]") {
  const Tensor sum = number(0), one = number(1);
  const sim::DeviceMemory& memory = sim::DeviceMemory::instance();
  cuda::Graph graph;
  const auto work = [&] { sum.add(one); };
  graph.rehearse(work);
  graph.capture(work);
  graph.launch();
  const std::size_t before = memory.pool_bytes();
  const std::int64_t reserved = cuda::memory_stats().reserved_bytes;
  empty({32 << 20}, DType::kUInt8, sum.device());
  CHECK(memory.pool_bytes() >= before + (32 << 20));
  CHECK(cuda::memory_stats().reserved_bytes >= reserved + (32 << 20));
  graph.launch();
  CHECK(memory.pool_bytes() == before);
  CHECK(cuda::memory_stats().reserved_bytes == reserved);
  CHECK(sum.item() == 3);
}

TEST_CASE("sim: what a graph's work leaves behind stays until the next launch, and outlives the graph",
          "[sim]") {
  const Tensor in = number(3);
  Tensor left, of_rehearsal;
  const auto in_use = [] { return sim::DeviceMemory::instance().bytes_in_use(); };
  const std::int64_t before = in_use();
  {
    cuda::Graph graph;
    graph.rehearse([&] {
      of_rehearsal = in.clone();
      full({20 << 20}, 1, DType::kUInt8, in.device());
    });
    CHECK(in_use() - before > 28 << 20);
    graph.capture([&] { left = in.clone(); });
    in.fill(4);
    graph.launch();
    CHECK(left.item() == 4);
    CHECK(of_rehearsal.item() == 3);
  }
  CHECK(left.item() == 4);
  CHECK(of_rehearsal.item() == 3);
  CHECK(in_use() - before == 8 << 20);  // where these two lie
  left = of_rehearsal = Tensor();
  CHECK(in_use() == before);
}

TEST_CASE("sim: memory of the pool that is let go of during a capture is freed after it", "[sim]") {
  Tensor before = number(1);
  const Tensor sum = number(0);
  cuda::Graph graph;
  graph.capture([&] {
    before = Tensor();
    sum.add(full({}, 5, DType::kFloat32, sum.device()));
  });
  graph.launch();
  CHECK(sum.item() == 5);
}

TEST_CASE("sim: work that waits or copies from the host cannot be captured", "[sim]") {
  const Tensor x = number(7), on_cpu = full({}, 1, DType::kFloat32);
  cuda::Graph graph;
  CHECK_THROWS_WITH(graph.capture([&] { x.item(); }),
                    Catch::Contains("a captured step does not copy to the host"));
  CHECK_THROWS_WITH(graph.capture([&] { cuda::synchronize(); }),
                    Catch::Contains("a captured step does not wait for the device"));
  CHECK_THROWS_WITH(graph.capture([&] { x.copy_from(on_cpu); }),
                    Catch::Contains("a captured step does not copy from the host"));
  CHECK_THROWS_WITH(graph.capture([&] { HostCopy copy(x); }),
                    Catch::Contains("a captured step does not copy to the host"));
  CHECK_FALSE(graph.captured());
  CHECK_THROWS_AS(graph.launch(), InternalError);
  graph.capture([&] { x.scale(2); });  // and all is as before
  graph.launch();
  CHECK(x.item() == 14);
}
