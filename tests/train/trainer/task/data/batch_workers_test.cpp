#include "train/trainer/task/data/batch_workers.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "core/threads.h"
#include "tests/support/address_limit.h"
#include "tests/support/child_process.h"
#include "tests/support/message_of.h"

using namespace moh;

namespace {

using Numbers = std::vector<std::int64_t>;

BatchWorkers<Numbers>::Steps squares() {
  return {
      .begin = [](std::int64_t) { return Numbers(5); },
      .samples = 5,
      .make = [](Numbers& batch, std::int64_t index,
                 std::int64_t i) { batch[static_cast<std::size_t>(i)] = (index * 5 + i) * (index * 5 + i); },
      .finish = [](Numbers& batch, std::int64_t index) { batch.push_back(index); }};
}

}  // namespace

TEST_CASE("batch workers: batches come whole and in order") {
  for (const int threads : {0, 1, 3, 8}) {
    BatchWorkers<Numbers> workers(squares(), 4, 2, threads);
    for (std::int64_t i = 4; i < 200; ++i) {
      CHECK(workers.position() == i);
      const Numbers batch = workers.next();
      REQUIRE(batch.size() == 6);
      REQUIRE(batch.front() == i * i * 25);
      REQUIRE(batch.back() == i);
    }
  }
}

TEST_CASE("batch workers: no more is made ahead than was asked for") {
  std::atomic<std::int64_t> begun = 0;
  auto steps = squares();
  steps.begin = [&](std::int64_t) {
    ++begun;
    return Numbers(5);
  };
  BatchWorkers<Numbers> workers(steps, 0, 2, 3);
  const auto comes_to = [&](std::int64_t count) {
    for (int i = 0; i < 10000 && begun < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return begun == count;
  };
  CHECK(comes_to(3));  // two ahead, and the next one to be taken
  workers.next();
  CHECK(comes_to(4));
}

TEST_CASE("batch workers: the first failure of a batch is thrown, in its turn and again") {
  for (const int threads : {0, 1, 4}) {
    auto steps = squares();
    steps.make = [](Numbers& batch, std::int64_t index, std::int64_t i) {
      if (index >= 2 && i >= 1)
        throw DataError("batch " + std::to_string(index) + ", sample " + std::to_string(i));
      batch[static_cast<std::size_t>(i)] = i;
    };
    BatchWorkers<Numbers> workers(steps, 0, 2, threads);
    workers.next();
    workers.next();
    for (int again = 0; again < 2; ++again)
      CHECK(message_of<DataError>([&] { workers.next(); }) == "batch 2, sample 1");
  }
}

TEST_CASE("batch workers: a batch that cannot be begun or finished is a failure of next()") {
  auto steps = squares();
  steps.begin = [](std::int64_t index) -> Numbers {
    if (index == 1) throw MemoryError("no memory");
    return Numbers(5);
  };
  BatchWorkers<Numbers> unbegun(steps, 0, 3, 2);
  unbegun.next();
  CHECK_THROWS_AS(unbegun.next(), MemoryError);
  steps = squares();
  steps.finish = [](Numbers&, std::int64_t) { throw DataError("unfinished"); };
  BatchWorkers<Numbers> unfinished(steps, 0, 3, 2);
  CHECK_THROWS_AS(unfinished.next(), DataError);
}

TEST_CASE("batch workers: a dry run has no threads, makes nothing, and holds as much as threads would") {
  const DryRunScope scope;
  int begun = 0;
  const auto here = std::this_thread::get_id();
  auto steps = squares();
  steps.begin = [&](std::int64_t) {
    CHECK(std::this_thread::get_id() == here);
    ++begun;
    return Numbers(5);
  };
  steps.make = [](Numbers&, std::int64_t, std::int64_t) { FAIL("a sample was made"); };
  BatchWorkers<Numbers> workers(steps, 10, 3, 2);
  workers.next();
  CHECK(begun == 1 + 4);
  workers.next();
  CHECK(begun == 2 + 4);
}

TEST_CASE("batch workers: they end at once, with all batches made and in the middle of their work") {
  auto slow = squares();
  slow.make = [](Numbers&, std::int64_t, std::int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (int round = 0; round < 50; ++round) {
    BatchWorkers<Numbers> full(squares(), 0, 2, 1);
    const BatchWorkers<Numbers> busy(slow, 0, 2, 1);
    if (round % 2 == 0) CHECK(full.next().back() == 0);
  }
}

TEST_CASE("batch workers: threads that the system refuses are an error, and those that came end") {
  const ChildResult result = run_in_child([] {
    test::limit_address_space(std::size_t{200} << 20);
    const BatchWorkers<Numbers> workers(squares(), 0, 2, 1000);
    return std::string("all were started");
  });
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, Catch::Contains("data.workers: expected 1000 threads, found "));
}
