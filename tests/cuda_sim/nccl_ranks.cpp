// A rank of several on simulated GPUs, for nccl_test.py: makes the collectives of a scenario, and checks
// their results. Started as torchrun would; prints why it fails, and ends with the exit code of the error.

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "core/cuda/backend.h"
#include "core/cuda/graph.h"
#include "core/cuda/nccl_group.h"
#include "core/cuda/queue.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/nccl.h"
#include "tests/cuda_sim/stream.h"
#include "train/comm/comm_backend.h"
#include "train/comm/comm_error.h"
#include "train/comm/launcher.h"
#include "train/comm/process_gpus.h"

using namespace moh;
using cuda::Queue;

namespace {

/// The process of a scenario.
struct Rank {
  Communicator& processes;
  Device device;
  CommBackend backend;

  std::unique_ptr<DeviceCollectives> open(double timeout) const {
    return open_device_collectives(processes, backend, device, timeout);
  }
};

void require(bool condition, const std::string& what) {
  if (!condition) throw ValueError(what);
}

void fork() {
  cuda::wait_for(Queue::kCommunication, Queue::kCompute);
}
void join() {
  cuda::wait_for(Queue::kCompute, Queue::kCommunication);
}

/// Values in host memory that differ by rank; whole numbers for types that hold no others.
Tensor values_of(int rank, std::int64_t count, DType dtype) {
  const Tensor values = empty({count}, DType::kFloat32);
  fill_normal(values, {7, static_cast<std::uint64_t>(rank)}, 0, 1e2);
  Tensor result = empty({count}, dtype);
  if (dtype != DType::kInt64) {
    result.copy_from(values);
    return result;
  }
  for (std::int64_t i = 0; i < count; ++i)
    result.data<std::int64_t>()[i] = static_cast<std::int64_t>(values.data<float>()[i]);
  return result;
}

void require_same_bits(const Tensor& on_device, const Tensor& expected, const std::string& what) {
  const Tensor here = on_device.to(kCpu);
  require(std::memcmp(here.raw(), expected.raw(), expected.bytes()) == 0, what + ": other bits");
}

/// A process alone sends nothing, and so rounds nothing.
void round_if_alone(const Rank& rank, const Tensor& values, DType wire) {
  if (rank.processes.alone()) values.copy_from(values.to(wire));
}

void check_all_reduce(const Rank& rank, std::int64_t count, DType dtype, ReduceOp op, DType wire) {
  const Tensor expected = values_of(rank.processes.rank(), count, dtype);
  const Tensor values = expected.to(rank.device);
  Communicator::Pending pending = rank.processes.start_all_reduce(expected, op, wire);
  rank.processes.finish(pending);
  round_if_alone(rank, expected, wire);
  fork();
  rank.processes.on_device().all_reduce(values, op, wire);
  join();
  require_same_bits(values, expected, "all-reduce of " + std::to_string(count));
}

void check_reduce_scatter(const Rank& rank, std::int64_t count, DType wire, bool in_place) {
  const int size = rank.processes.size(), own = rank.processes.rank();
  const Tensor host = values_of(own, count * size, DType::kFloat32).reshape({size, count});
  const Tensor rows = host.to(rank.device);
  const Tensor part = in_place ? rows.select(own) : empty({count}, DType::kFloat32, rank.device);
  const Tensor expected = empty({count}, DType::kFloat32);
  Communicator::Pending pending = rank.processes.start_reduce_scatter(host, expected, ReduceOp::kSum, wire);
  rank.processes.finish(pending);
  round_if_alone(rank, expected, wire);
  fork();
  rank.processes.on_device().reduce_scatter(rows, part, ReduceOp::kSum, wire);
  join();
  require_same_bits(part, expected, "reduce-scatter of " + std::to_string(count));
}

void check_all_gather(const Rank& rank, std::int64_t count, DType dtype, bool in_place) {
  const int size = rank.processes.size(), own = rank.processes.rank();
  const Tensor host = values_of(own, count, dtype), expected = empty({size, count}, dtype);
  rank.processes.all_gather(host, expected);
  const Tensor rows = zeros({size, count}, dtype, rank.device);
  const Tensor part = in_place ? rows.select(own) : empty({count}, dtype, rank.device);
  part.copy_from(host);
  fork();
  rank.processes.on_device().all_gather(part, rows);
  join();
  require_same_bits(rows, expected, "all-gather of " + std::to_string(count));
}

void check_broadcast(const Rank& rank, std::int64_t count, int root) {
  const Tensor values = values_of(rank.processes.rank(), count, DType::kInt64).to(rank.device);
  fork();
  rank.processes.on_device().broadcast(values, root);
  join();
  require_same_bits(values, values_of(root, count, DType::kInt64), "broadcast");
}

/// Every collective, in every type, as the host's communicator has it.
void collectives(const Rank& rank) {
  const auto opened = rank.open(60);
  // One element, fewer than a kernel loads at once, past a piece of the simulator's slots.
  for (const std::int64_t count : {1, 5, 1000, 70001}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kInt64})
      check_all_reduce(rank, count, dtype, ReduceOp::kSum, dtype);
    check_all_reduce(rank, count, DType::kBFloat16, ReduceOp::kSum, DType::kBFloat16);
    check_all_reduce(rank, count, DType::kFloat32, ReduceOp::kSum, DType::kBFloat16);
    check_all_reduce(rank, count, DType::kFloat32, ReduceOp::kMax, DType::kFloat32);
    for (const bool in_place : {false, true}) {
      check_reduce_scatter(rank, count, DType::kFloat32, in_place);
      check_reduce_scatter(rank, count, DType::kBFloat16, in_place);
      check_all_gather(rank, count, DType::kUInt8, in_place);
      check_all_gather(rank, count, DType::kFloat32, in_place);
    }
    for (int root = 0; root < rank.processes.size(); ++root) check_broadcast(rank, count, root);
  }
  opened->barrier();
  opened->require_same_calls(rank.processes);
  cuda::synchronize();
  opened->leave();
}

Tensor persistent_zeros(const Rank& rank, std::int64_t count) {
  const cuda::PersistentMemoryScope persistent;
  return zeros({count}, DType::kFloat32, rank.device);
}

/// A captured all-reduce of memory of its own.
struct CapturedSum {
  Tensor values;
  std::optional<cuda::Graph> graph = std::make_optional<cuda::Graph>();

  CapturedSum(const Rank& rank, DeviceCollectives& opened) : values(persistent_zeros(rank, 16)) {
    graph->capture([&] {
      fork();
      opened.all_reduce(values, ReduceOp::kSum, DType::kFloat32);
      join();
    });
  }
};

/// A captured all-reduce, in float32 and in bfloat16, is replayed with other values.
void graph(const Rank& rank) {
  const auto opened = rank.open(60);
  require(opened->capturable(), "NCCL can be captured");
  constexpr std::int64_t kCount = 3000;
  const Tensor values = persistent_zeros(rank, kCount), rounded = persistent_zeros(rank, kCount);
  const auto work = [&] {
    fork();
    opened->all_reduce(values, ReduceOp::kSum, DType::kFloat32);
    opened->all_reduce(rounded, ReduceOp::kSum, DType::kBFloat16);
    join();
    values.scale(0.5);
  };
  auto captured = std::make_optional<cuda::Graph>();
  captured->rehearse(work);
  captured->capture(work);
  for (int replay = 0; replay < 3; ++replay) {
    const Tensor host = values_of(rank.processes.rank() + 10 * replay, kCount, DType::kFloat32);
    values.copy_from(host);
    rounded.copy_from(host);
    captured->launch();
    const Tensor sums = host.clone();
    rank.processes.all_reduce(sums, ReduceOp::kSum);
    sums.scale(0.5);
    require_same_bits(values, sums, "a replayed all-reduce");
    Communicator::Pending pending = rank.processes.start_all_reduce(host, ReduceOp::kSum, DType::kBFloat16);
    rank.processes.finish(pending);
    round_if_alone(rank, host, DType::kBFloat16);
    require_same_bits(rounded, host, "a replayed all-reduce in bfloat16");
  }
  captured.reset();
  opened->leave();
}

/// Memory of a captured collective is persistent, and is not freed before the communicator has let go of it.
void memory_of_captured(const Rank& rank) {
  const auto opened = rank.open(60);
  CapturedSum captured(rank, *opened);
  const auto is_registered = [&] {
    try {
      cudaFree(captured.values.raw());
      return false;
    } catch (const sim::KernelFault& fault) {
      return std::string(fault.what()).find("has registered") != std::string::npos;
    }
  };
  require(is_registered(), "the memory is registered");
  captured.graph.reset();
  require(is_registered(), "it is until the communicator's next call");
  cuda::Graph refused;
  const Tensor passing = zeros({16}, DType::kFloat32, rank.device);
  try {
    refused.capture([&] { opened->all_reduce(passing, ReduceOp::kSum, DType::kFloat32); });
    throw ValueError("memory of the pool was captured");
  } catch (const InternalError& error) {
    require(std::string(error.what()).find("a captured collective: memory") != std::string::npos,
            error.what());
  }
  opened->barrier();
  cuda::synchronize();
  captured.values = {};
  opened->leave();
}

/// The second rank calls something else, of which NCCL takes no notice.
void mismatch(const Rank& rank, const std::function<void(DeviceCollectives&, const Tensor&)>& other) {
  const auto opened = rank.open(5);
  const Tensor values = zeros({16}, DType::kFloat32, rank.device);
  fork();
  try {
    if (rank.processes.rank() == 1)
      other(*opened, values);
    else
      opened->all_reduce(values, ReduceOp::kSum, DType::kFloat32);
  } catch (const sim::KernelFault& fault) {
    std::cout << fault.what() << std::endl;
    return opened->abort();
  }
  throw ValueError("the simulator did not notice");
}

void other_calls(const Rank& rank) {
  const auto opened = rank.open(5);
  const Tensor values = zeros({16}, DType::kFloat32, rank.device);
  const sim::Streams::TimingScope late(sim::Timing::kLate);
  fork();
  opened->all_reduce(rank.processes.rank() == 1 ? values.slice(0, 8) : values, ReduceOp::kSum,
                     DType::kFloat32);
  opened->require_same_calls(rank.processes);
}

/// All but the last rank wait on the device for the last one, which has `last` to do in place of it.
void wait_for_last(const Rank& rank, const std::function<void()>& last) {
  const auto opened = rank.open(1.5);
  const AbortOnFailure guard(*opened);
  const Tensor values = zeros({16}, DType::kFloat32, rank.device);
  opened->all_reduce(values, ReduceOp::kSum, DType::kFloat32);
  cuda::synchronize();
  if (rank.processes.rank() + 1 == rank.processes.size()) last();
  opened->all_reduce(values, ReduceOp::kSum, DType::kFloat32);
  cuda::synchronize();
  throw ValueError("the all-reduce has ended");
}

/// The last rank is gone, and so is each other one while it launches a collective, which it does not come
/// back from, with a captured one that is alive.
void gone_in_a_call(const Rank& rank) {
  const auto opened = rank.open(60);
  CapturedSum captured(rank, *opened);
  const AbortOnFailure guard(*opened, [&] { captured.graph.reset(); });
  captured.graph->launch();
  cuda::synchronize();
  if (rank.processes.rank() + 1 == rank.processes.size()) ::_exit(9);
  const sim::Streams::TimingScope late(sim::Timing::kLate);  // the call itself waits for nobody
  sim::Nccl::instance().stays_in_progress = true;
  opened->all_reduce(captured.values, ReduceOp::kSum, DType::kFloat32);
  throw ValueError("the call came back");
}

/// The last rank is gone, and the others wait on the device for its part of a replay.
void gone_in_a_replay(const Rank& rank) {
  const auto opened = rank.open(60);
  CapturedSum captured(rank, *opened);
  const AbortOnFailure guard(*opened, [&] { captured.graph.reset(); });
  for (int step = 0;; ++step) {
    if (step == 3 && rank.processes.rank() + 1 == rank.processes.size()) ::_exit(9);
    captured.graph->launch();
    cuda::synchronize();
  }
}

/// While an abort waits for a graph, the thread that has to destroy it calls a collective, and gets an error.
void call_in_an_abort(const Rank& rank) {
  cuda::NcclId id{};
  if (rank.processes.is_rank0()) id = cuda::make_nccl_id();
  std::ranges::copy(rank.processes.text_of_rank0({id.data(), id.size()}), id.begin());
  cuda::NcclGroup group(id, rank.processes.rank(), rank.processes.size());
  while (!group.joined()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Tensor values = persistent_zeros(rank, 16);
  const auto sum = [&] { group.all_reduce(values.raw(), 16, DType::kFloat32, ReduceOp::kSum); };
  auto captured = std::make_optional<cuda::Graph>();
  captured->capture([&] {
    fork();
    sum();
    join();
  });
  ::alarm(20);  // ends a call that does not come back
  group.abort();
  while (sim::Nccl::instance().aborts == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  try {
    sum();
    throw ValueError("a collective was enqueued");
  } catch (const DeviceError& error) {
    require(std::string(error.what()).find("was aborted") != std::string::npos, error.what());
  }
  captured.reset();
  require(group.wait_for_abort(10), "the abort ends with the graph");
}

void background_error(const Rank& rank) {
  const auto opened = rank.open(60);
  sim::Nccl::instance().background_error = ncclRemoteError;
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  cuda::synchronize();
  throw ValueError("nobody noticed");
}

void use_after_abort(const Rank& rank) {
  const auto opened = rank.open(60);
  opened->abort();
  const Tensor values = zeros({16}, DType::kFloat32, rank.device);
  opened->all_reduce(values, ReduceOp::kSum, DType::kFloat32);
}

void never_joins(const Rank& rank) {
  if (rank.processes.rank() == 1) {
    // Rank 1 has the library and the id, but makes no communicator.
    static_cast<void>(rank.processes.texts_of_all(cuda::nccl_version()));
    static_cast<void>(rank.processes.text_of_rank0(""));
    std::this_thread::sleep_for(std::chrono::seconds(3));
    return;
  }
  static_cast<void>(rank.open(1));
}

const std::map<std::string, std::function<void(const Rank&)>> kScenarios = {
    {"collectives", collectives},
    {"graph", graph},
    {"memory_of_captured", memory_of_captured},
    {"other_count",
     [](const Rank& rank) {
       mismatch(rank, [](DeviceCollectives& on_device, const Tensor& values) {
         on_device.all_reduce(values.slice(0, 8), ReduceOp::kSum, DType::kFloat32);
       });
     }},
    {"other_type",
     [](const Rank& rank) {
       mismatch(rank, [&](DeviceCollectives& on_device, const Tensor&) {
         on_device.all_reduce(zeros({16}, DType::kInt64, rank.device), ReduceOp::kSum, DType::kInt64);
       });
     }},
    {"other_collective",
     [](const Rank& rank) {
       mismatch(rank, [](DeviceCollectives& on_device, const Tensor& values) {
         on_device.broadcast(values.slice(0, 4), 0);
       });
     }},
    {"other_operation",
     [](const Rank& rank) {
       mismatch(rank, [](DeviceCollectives& on_device, const Tensor& values) {
         on_device.all_reduce(values, ReduceOp::kMax, DType::kFloat32);
       });
     }},
    {"other_calls", other_calls},
    {"stuck",
     [](const Rank& rank) {
       wait_for_last(rank, [] { std::this_thread::sleep_for(std::chrono::seconds(60)); });
     }},
    {"slow",
     [](const Rank& rank) {
       wait_for_last(rank, [] { std::this_thread::sleep_for(std::chrono::seconds(6)); });
     }},
    {"killed", [](const Rank& rank) { wait_for_last(rank, [] { ::_exit(9); }); }},
    {"fails", [](const Rank& rank) { wait_for_last(rank, [] { throw DataError("no more data"); }); }},
    {"call_in_an_abort", call_in_an_abort},
    {"gone_in_a_call", gone_in_a_call},
    {"gone_in_a_replay", gone_in_a_replay},
    {"background_error", background_error},
    {"use_after_abort", use_after_abort},
    {"never_joins", never_joins},
};

/// As train/apps/cli/in_processes.cpp.
int end_of(const std::exception& error, int code, Communicator& processes) {
  processes.report_failure(code, error.what());
  std::printf("rank %d: %s\n", processes.rank(), error.what());
  std::fflush(stdout);
  processes.leave_failed(code);
  return code;
}

int run(const std::string& scenario, CommBackend backend) {
  const std::unique_ptr<Communicator> group = open_communicator();
  Communicator& processes = group ? *group : one_process();
  try {
    const Device device = gpu_of_process(processes, backend);
    open_device(device);
    kScenarios.at(scenario)({processes, device, backend});
    processes.leave();
    return 0;
  } catch (const PeerError& error) {
    return end_of(error, error.exit_code(), processes);
  } catch (const CommError& error) {
    return end_of(error, CommError::kExitCode, processes);
  } catch (const std::exception& error) {
    return end_of(error, 3, processes);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || !kScenarios.contains(argv[1])) {
    std::fprintf(stderr, "usage: nccl_ranks SCENARIO nccl|host\n");
    return 2;
  }
  return run(argv[1], std::string(argv[2]) == "host" ? CommBackend::kHost : CommBackend::kNccl);
}
