#include "train/comm/communicator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "core/random.h"
#include "tests/support/thread_processes.h"
#include "train/comm/comm_error.h"

using namespace moh;
using test::require_success;
using test::run_processes;

namespace {

/// The contribution of process `rank`; whole numbers, so that every type holds their sums.
Tensor contribution(std::int64_t count, DType dtype, int rank) {
  const Tensor values = empty({count}, DType::kFloat32);
  for (std::int64_t i = 0; i < count; ++i)
    values.data<float>()[i] = static_cast<float>((i * 7 + rank * 13) % 31 - 15);
  Tensor result = empty({count}, dtype);
  if (dtype != DType::kInt64) {
    result.copy_from(values);
    return result;
  }
  for (std::int64_t i = 0; i < count; ++i)
    result.data<std::int64_t>()[i] = static_cast<std::int64_t>(values.data<float>()[i]);
  return result;
}

double number_at(const Tensor& values, std::int64_t i) {
  return values.reshape({values.numel()}).slice(i, i + 1).item();
}

/// The right values of process `rank` after an all-reduce of contribution().
double expected_at(std::int64_t i, int size, ReduceOp op) {
  double result = op == ReduceOp::kSum ? 0 : -1e9;
  for (int r = 0; r < size; ++r) {
    const double x = static_cast<double>((i * 7 + r * 13) % 31 - 15);
    result = op == ReduceOp::kSum ? result + x : std::max(result, x);
  }
  return result;
}

}  // namespace

TEST_CASE("communicator: an all-reduce gives every process the sum or the maximum") {
  const int size = GENERATE(1, 2, 3, 4);
  const auto dtype = GENERATE(DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt64);
  // Nothing, fewer than processes, odd, past the size up to which everybody makes all sums.
  const std::int64_t count = GENERATE(0, 1, 3, 5, 1000, 33333);
  for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax}) {
    require_success(size, [&](Communicator& comm) {
      const Tensor values = contribution(count, dtype, comm.rank());
      comm.all_reduce(values, op);
      for (std::int64_t i = 0; i < count; ++i) {
        if (number_at(values, i) != expected_at(i, size, op))
          throw ValueError("element " + std::to_string(i) + ": " + std::to_string(number_at(values, i)));
      }
    });
  }
}

TEST_CASE("communicator: sums are made in the order of the ranks, so all processes have the same bits") {
  constexpr int kSize = 4;
  const std::int64_t count = GENERATE(7, 20001);
  const auto values_of = [&](int rank) {
    Tensor values = empty({count}, DType::kFloat32);
    fill_normal(values, {1, static_cast<std::uint64_t>(rank)}, 0, 1e3);
    return values;
  };
  Tensor expected = values_of(0);
  for (int r = 1; r < kSize; ++r) expected.add(values_of(r));
  require_success(kSize, [&](Communicator& comm) {
    const Tensor values = values_of(comm.rank());
    comm.all_reduce(values, ReduceOp::kSum);
    if (std::memcmp(values.raw(), expected.raw(), values.bytes()) != 0) throw ValueError("other bits");
  });
}

TEST_CASE("communicator: bfloat16 on the wire is summed in float32") {
  constexpr int kSize = 3;
  const std::int64_t count = 30000;
  require_success(kSize, [&](Communicator& comm) {
    const Tensor values = full({count}, comm.rank() == 0 ? 256.0 : 0.75, DType::kFloat32);
    Communicator::Pending pending = comm.start_all_reduce(values, ReduceOp::kSum, DType::kBFloat16);
    comm.finish(pending);
    // 257.5 lies between 256 and 258 in bfloat16. Summed in bfloat16 it would have stayed 256.
    if (number_at(values, 0) != 258 || number_at(values, count - 1) != 258)
      throw ValueError(std::to_string(number_at(values, 0)));
  });
}

TEST_CASE("communicator: the maximum with a NaN is a NaN") {
  require_success(2, [](Communicator& comm) {
    const Tensor values = full({3}, comm.rank() == 1 ? std::nan("") : 1.0, DType::kFloat32);
    comm.all_reduce(values, ReduceOp::kMax);
    if (!std::isnan(number_at(values, 2))) throw ValueError("a number");
  });
}

TEST_CASE("communicator: reduce-scatter, all-gather, broadcast") {
  const int size = GENERATE(1, 2, 3, 4);
  const std::int64_t count = GENERATE(1, 5, 40000);
  require_success(size, [&](Communicator& comm) {
    const Tensor rows = contribution(count * size, DType::kFloat32, comm.rank()).reshape({size, count});
    const Tensor part = empty({count}, DType::kFloat32);
    comm.reduce_scatter(rows, part, ReduceOp::kSum);
    for (std::int64_t i = 0; i < count; ++i) {
      if (number_at(part, i) != expected_at(comm.rank() * count + i, size, ReduceOp::kSum))
        throw ValueError("reduce-scatter: element " + std::to_string(i));
    }
    const Tensor all = empty({size, count}, DType::kFloat32);
    all.select(comm.rank()).copy_from(part);
    comm.all_gather(all.select(comm.rank()), all);
    const Tensor others = empty({size, count}, DType::kFloat32);
    comm.all_gather(part, others);
    for (std::int64_t i = 0; i < count * size; ++i) {
      const double expected = expected_at(i, size, ReduceOp::kSum);
      if (number_at(all, i) != expected || number_at(others, i) != expected)
        throw ValueError("all-gather: element " + std::to_string(i));
    }
    for (int root = 0; root < size; ++root) {
      const Tensor values = contribution(count, DType::kInt64, comm.rank());
      comm.broadcast(values, root);
      const Tensor expected = contribution(count, DType::kInt64, root);
      if (std::memcmp(values.raw(), expected.raw(), values.bytes()) != 0) throw ValueError("broadcast");
    }
    comm.barrier();
  });
}

TEST_CASE("communicator: numbers and texts") {
  require_success(3, [](Communicator& comm) {
    if (comm.max(comm.rank() * 10) != 20) throw ValueError("max");
    const std::string own = comm.is_rank0() ? "of the leader" : "another";
    if (comm.text_of_rank0(own) != "of the leader") throw ValueError("text");
    if (!comm.text_of_rank0(comm.is_rank0() ? "" : own).empty()) throw ValueError("an empty text");
  });
  CHECK(one_process().max(7) == 7);
  CHECK(one_process().text_of_rank0("own") == "own");
}

TEST_CASE("communicator: what was started runs in order, while the thread goes on") {
  require_success(2, [](Communicator& comm) {
    const Tensor values = full({50000}, 1.0, DType::kFloat32);
    std::vector<Communicator::Pending> pending;
    for (int i = 0; i < 5; ++i)
      pending.push_back(comm.start_all_reduce(values, ReduceOp::kSum, DType::kFloat32));
    for (Communicator::Pending& one : pending) comm.finish(one);
    if (number_at(values, 49999) != 32) throw ValueError("sum");
  });
}

TEST_CASE("communicator: a process that calls something else is named, and nothing is overwritten") {
  const auto errors = run_processes(3, [](Communicator& comm) {
    const Tensor values = full({comm.rank() == 1 ? 5 : 4}, 1.0, DType::kFloat32);
    try {
      comm.all_reduce(values, ReduceOp::kSum);
    } catch (const CommError&) {
      if (number_at(values, 0) != 1) throw ValueError("overwritten");
      throw;
    }
  });
  for (const std::string& error : errors) {
    CHECK(error.find("collective 2") != std::string::npos);
    CHECK(error.find("all-reduce number 2 of 4 elements of float32") != std::string::npos);
    CHECK(error.find("all-reduce number 2 of 5 elements of float32") != std::string::npos);
  }
  CHECK(errors[0].find("rank 1 (host ") != std::string::npos);
  const auto kinds = run_processes(2, [](Communicator& comm) {
    if (comm.rank() == 0) return comm.barrier();
    comm.broadcast(zeros({2}, DType::kInt64));
  });
  CHECK(kinds[1].find("barrier number 2 from rank 0") != std::string::npos);
}

TEST_CASE("communicator: a process that does not come is named when the deadline has passed") {
  std::atomic<bool> done = false;
  const auto errors = run_processes(3, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      while (!done) std::this_thread::yield();
      return;
    }
    comm.set_deadline(0.5);
    try {
      comm.barrier();
    } catch (const CommError&) {
      if (comm.rank() == 2) done = true;
      throw;
    }
  });
  CHECK(errors[0].find("comm: barrier number 2: expected all 3 processes within comm.timeout") == 0);
  CHECK(errors[0].find("that rank 1 (host ") != std::string::npos);
  CHECK(errors[2].find("did not come; rank 0 (host ") != std::string::npos);
}

TEST_CASE("communicator: after an error no collective is tried") {
  const auto errors = run_processes(2, [](Communicator& comm) {
    const Tensor values = zeros({comm.rank() + 1}, DType::kInt64);
    try {
      comm.all_reduce(values, ReduceOp::kSum);
    } catch (const CommError&) {
      comm.barrier();
    }
  });
  for (const std::string& error : errors) CHECK(error.find("collective 2") != std::string::npos);
}

TEST_CASE("communicator: the error of one process reaches the others, with its exit code") {
  const auto errors = run_processes(3, [](Communicator& comm) {
    if (comm.rank() == 2) {
      if (!comm.report_failure(5, "disk full")) throw ValueError("not told");
      return comm.leave_failed(5);
    }
    try {
      comm.all_reduce(zeros({100000}, DType::kFloat32), ReduceOp::kSum);
    } catch (const PeerError& error) {
      if (error.exit_code() != 5) throw ValueError("exit code");
      if (!comm.report_failure(1, "of others")) throw ValueError("told already");
      comm.leave_failed(5);
      throw;
    }
  });
  for (const int rank : {0, 1}) {
    CHECK(errors[static_cast<std::size_t>(rank)].find("rank 2 (host ") == 0);
    CHECK(errors[static_cast<std::size_t>(rank)].find("has failed: disk full") != std::string::npos);
  }
  CHECK(errors[2].empty());
}

TEST_CASE("communicator: processes leave together") {
  require_success(3, [](Communicator& comm) { comm.leave(); });
  const auto errors = run_processes(2, [](Communicator& comm) {
    try {
      if (comm.is_rank0()) comm.leave();
      comm.report_failure(3, "in the end");
    } catch (const PeerError&) {
      comm.leave_failed(3);
      throw;
    }
    comm.leave_failed(3);
  });
  CHECK(errors[0].find("has failed: in the end") != std::string::npos);
}

TEST_CASE("communicator: types that have no sum are refused") {
  const auto errors = run_processes(
      2, [](Communicator& comm) { comm.all_reduce(zeros({2}, DType::kInt32), ReduceOp::kSum); });
  CHECK(errors[0].find("expected float32, bfloat16, float64 or int64, found int32") != std::string::npos);
}
