#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/cuda/backend.h"
#include "core/cuda/collective_counts.h"
#include "core/cuda/graph.h"
#include "core/cuda/nccl_group.h"
#include "core/cuda/queue.h"
#include "core/cuda/sum_rows.h"
#include "core/error.h"
#include "core/random.h"
#include "tests/ops/device_checks.h"
#include "tests/ops/device_ways.h"

namespace moh::test {

namespace {

using cuda::Queue;

Tensor normal_values(std::int64_t count, DType dtype) {
  const Tensor values = empty({count}, DType::kFloat32);
  fill_normal(values, {11, 0}, 0, 1e2);
  return values.to(dtype);
}

bool same_bits(const Tensor& on_device, const Tensor& expected) {
  const Tensor here = on_device.to(kCpu);
  return here.bytes() == expected.bytes() && std::memcmp(here.raw(), expected.raw(), here.bytes()) == 0;
}

void check_sums_of_rows(Device gpu) {
  // Loaded eight at a time, and where they cannot be.
  for (const std::int64_t count : {1, 8, 13, 4000}) {
    for (const std::int64_t rows : {1, 2, 5}) {
      const Tensor values = normal_values(rows * count, DType::kBFloat16);
      const Tensor sums = empty({count}, DType::kBFloat16, gpu), on_gpu = values.to(gpu);
      cuda::sum_rows(on_gpu.data<bfloat16>(), sums.data<bfloat16>(), rows, count);
      const Tensor expected = values.slice(0, count).to(DType::kFloat32).clone();
      for (std::int64_t r = 1; r < rows; ++r) expected.add(values.slice(r * count, (r + 1) * count));
      INFO(rows << " rows of " << count);
      CHECK(same_bits(sums, expected.to(DType::kBFloat16)));
    }
  }
}

void check_counts() {
  const cuda::CollectiveCounts before = cuda::collective_counts();
  cuda::count_begin_of_collective();
  cuda::count_begin_of_collective();
  cuda::count_end_of_collective();
  cuda::synchronize();
  CHECK(cuda::collective_counts().begun == before.begun + 2);
  CHECK(cuda::collective_counts().ended == before.ended + 1);
  cuda::count_end_of_collective();
  cuda::synchronize();
}

/// Each of NCCL's collectives in a communicator of one process, also replayed: that the library is there, has
/// these functions, and takes what it is given.
void check_nccl(Device gpu) {
  cuda::NcclGroup group(cuda::make_nccl_id(), 0, 1);
  for (int i = 0; i < 60000 && !group.joined(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(group.joined());
  const Tensor expected = normal_values(1000, DType::kFloat32);
  Tensor values, row;
  {
    const cuda::PersistentMemoryScope persistent;
    values = expected.to(gpu).clone();
    row = zeros({1000}, DType::kFloat32, gpu);
  }
  const auto work = [&] {
    cuda::wait_for(Queue::kCommunication, Queue::kCompute);
    const auto bytes = static_cast<std::int64_t>(values.bytes());
    group.all_reduce(values.raw(), values.numel(), DType::kFloat32, ReduceOp::kSum);
    group.reduce_scatter(values.raw(), row.raw(), values.numel(), DType::kFloat32, ReduceOp::kMax);
    group.exchange(row.raw(), values.raw(), bytes);
    group.all_gather(values.raw(), row.raw(), bytes);
    group.broadcast(row.raw(), bytes, 0);
    group.check();
    cuda::wait_for(Queue::kCompute, Queue::kCommunication);
  };
  const cuda::GraphMemory memory;
  cuda::Graph graph(memory);
  graph.rehearse(work);
  CHECK(same_bits(row, expected));
  graph.capture(work);
  row.fill(0);
  graph.launch();
  CHECK(same_bits(row, expected));
  CHECK(group.leave(30));
}

}  // namespace

void check_collectives_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    check_sums_of_rows(gpu);
    check_counts();
  });
  try {
    check_nccl(gpu);
  } catch (const ConfigError& error) {
    WARN(error.what());  // NCCL is needed by several processes alone
  }
}

TEST_CASE("device: collectives are counted and summed, and NCCL's work in one process", "[device]") {
  check_collectives_on_device();
}

}  // namespace moh::test
