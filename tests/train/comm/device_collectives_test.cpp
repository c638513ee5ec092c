#include "train/comm/device_collectives.h"

#include <catch2/catch.hpp>
#include <functional>

#include "core/cuda/nccl_group.h"
#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/thread_processes.h"
#include "train/comm/collective_memory.h"
#include "train/comm/comm_backend.h"
#include "train/comm/comm_error.h"
#include "train/comm/process_gpus.h"

using namespace moh;
using test::require_success;

namespace {

/// Collectives that note what they are called for.
class Noted : public DeviceCollectives {
 public:
  std::string description() const override { return "noted"; }
  bool capturable() const override { return true; }
  void barrier() override {}
  void check() override {}
  void abort() noexcept override { ++aborts; }
  void leave() override {}

  int aborts = 0;

 private:
  void do_all_reduce(const Tensor&, ReduceOp, DType) override {}
  void do_reduce_scatter(const Tensor&, const Tensor&, ReduceOp, DType) override {}
  void do_all_gather(const Tensor&, const Tensor&) override {}
  void do_broadcast(const Tensor&, int) override {}
};

using Calls = std::function<void(DeviceCollectives&, int rank)>;

/// The errors of require_same_calls() in each of three processes that make these calls.
std::vector<std::string> compare(const Calls& calls) {
  return test::run_processes(3, [&](Communicator& processes) {
    Noted collectives;
    calls(collectives, processes.rank());
    try {
      collectives.require_same_calls(processes);
    } catch (const CommError&) {
      if (collectives.aborts != 1) throw ValueError("what is under way has to be ended");
      throw;
    }
  });
}

}  // namespace

TEST_CASE("device collectives: equal calls are equal, whatever came before") {
  require_success(2, [](Communicator& processes) {
    Noted collectives;
    const Tensor values = zeros({6}, DType::kFloat32);
    for (int i = 0; i < 3; ++i) {
      collectives.all_reduce(values, ReduceOp::kSum, DType::kFloat32);
      collectives.broadcast(values, 1);
      collectives.require_same_calls(processes);
      collectives.require_same_calls(processes);  // nothing new
    }
    if (collectives.calls() != 6) throw ValueError("calls are counted");
    if (collectives.last_call() != "broadcast of 6 elements of float32 (1)")
      throw ValueError(collectives.last_call());
  });
}

TEST_CASE("device collectives: a process that calls something else is named, with both calls") {
  const Tensor values = zeros({6}, DType::kFloat32);
  const auto [other, text] = GENERATE_COPY(table<Calls, std::string>({
      {[=](DeviceCollectives& c, int) { c.all_reduce(values.slice(0, 5), ReduceOp::kSum, DType::kFloat32); },
       "all-reduce of 5 elements of float32"},
      {[=](DeviceCollectives& c, int) { c.all_reduce(values, ReduceOp::kSum, DType::kBFloat16); },
       "all-reduce of 6 elements of bfloat16"},
      {[=](DeviceCollectives& c, int) { c.all_reduce(values, ReduceOp::kMax, DType::kFloat32); },
       "all-reduce of 6 elements of float32 (1)"},
      {[=](DeviceCollectives& c, int rank) { c.broadcast(values, rank); },
       "broadcast of 6 elements of float32"},
      {[=](DeviceCollectives& c, int) {
         c.all_gather(values.slice(0, 2), values.reshape({3, 2}));
       },
       "all-gather of 6 elements of float32"},
      {[=](DeviceCollectives& c, int) {
         c.all_reduce(values, ReduceOp::kSum, DType::kFloat32);
         c.all_reduce(values, ReduceOp::kSum, DType::kFloat32);
       },
       "2 calls"},
  }));
  const auto& of_rank_2 = other;  // clang 14 captures no structured binding
  const std::vector<std::string> errors = compare([&](DeviceCollectives& collectives, int rank) {
    if (rank == 2) return of_rank_2(collectives, rank);
    collectives.all_reduce(values, ReduceOp::kSum, DType::kFloat32);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::Contains("1 calls, the last of them all-reduce of 6 elements of float32, as rank 0"));
    CHECK_THAT(error, Catch::Contains(text));
    CHECK_THAT(error, Catch::Contains("from rank 2"));
  }
}

TEST_CASE("device collectives: operands need a row for each process") {
  Noted collectives;
  const Tensor rows = zeros({2, 3}, DType::kFloat32), part = zeros({2}, DType::kFloat32);
  CHECK_THROWS_AS(collectives.all_gather(part, rows), InternalError);
  CHECK_THROWS_AS(collectives.reduce_scatter(rows, part, ReduceOp::kSum, DType::kFloat32), InternalError);
  CHECK_THROWS_AS(collectives.all_gather(zeros({3}, DType::kInt64), rows), InternalError);
  CHECK(collectives.calls() == 0);
}

TEST_CASE("device collectives: an exception ends what is under way, a normal end does not") {
  Noted collectives;
  { const AbortOnFailure guard(collectives); }
  CHECK(collectives.aborts == 0);
  try {
    const AbortOnFailure guard(collectives);
    throw ValueError("anything");
  } catch (const ValueError&) {
    const AbortOnFailure within_a_handler(collectives);
  }
  CHECK(collectives.aborts == 1);
}

TEST_CASE("device collectives: captures are released between an abort and its end") {
  struct Ordered : Noted {
    std::string order;
    void abort() noexcept override { order += "abort "; }
    void wait_for_abort() noexcept override { order += "end"; }
  } collectives;
  try {
    const AbortOnFailure guard(collectives, [&] { collectives.order += "release "; });
    throw ValueError("anything");
  } catch (const ValueError&) {
  }
  CHECK(collectives.order == "abort release end");
}

TEST_CASE("device collectives: memory of collectives stays where it is, also where more is needed") {
  CollectiveMemory memory;
  Tensor first = memory.of({4, 3}, DType::kFloat32, kCpu);
  first.fill(5);
  CHECK(memory.of({2}, DType::kFloat32, kCpu).raw() == first.raw());
  const float* const kept = first.data<float>();
  first = {};
  const Tensor larger = memory.of({13}, DType::kFloat32, kCpu);
  CHECK(larger.raw() != kept);
  CHECK(memory.of({4, 3}, DType::kFloat32, kCpu).raw() == larger.raw());
  CHECK(memory.of({2}, DType::kInt64, kCpu).dtype() == DType::kInt64);
  CHECK(kept[11] == 5);
}

TEST_CASE("device collectives: a process takes the GPU of its number on the machine") {
  using enum CommBackend;
  CHECK(gpu_of({3, 4, 8}, kAuto) == 3);
  CHECK(gpu_of({std::nullopt, 1, 8}, kAuto) == 0);
  CHECK(gpu_of({3, 4, 1}, kAuto) == 0);  // the one that the launcher lets it see
  CHECK(gpu_of({3, 4, 2}, kHost) == 1);
  CHECK(gpu_of({0, 2, 0}, kAuto) == 0);
  CHECK_THAT(
      message_of<ConfigError>([] {
        gpu_of({2, 3, 2}, kNccl);
      }),
      Catch::Contains("expected a GPU for each, found 2 GPUs") && Catch::Contains("comm.backend: host"));
  CHECK_THAT(message_of<ConfigError>([] {
               gpu_of({std::nullopt, 2, 2}, kHost);
             }),
             Catch::Contains("LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID"));
}

TEST_CASE("device collectives: NCCL is there with all its functions, or is said to be missing", "[toolkit]") {
  try {
    const std::string version = cuda::nccl_version();  // within CHECK_THAT its exception would be a failure
    CHECK_THAT(version, Catch::Matches(R"(2\.\d+\.\d+)"));
    CHECK(!cuda::nccl_algorithms().empty());
    WARN("NCCL " << version);
  } catch (const ConfigError& error) {
    CHECK_THAT(error.what(), Catch::Contains("NCCL") || Catch::Contains("libnccl.so.2"));
    CHECK_THAT(error.what(), Catch::Contains("comm.backend: host"));
  }
}
