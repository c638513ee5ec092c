#include "core/parallel.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/loop_shares.h"
#include "tests/support/environment_scope.h"

using namespace moh;

namespace {

/// Runs with `count` threads and puts the former number back.
class ThreadsScope {
 public:
  explicit ThreadsScope(int count) : previous_(num_threads()) { set_num_threads(count); }
  ~ThreadsScope() { set_num_threads(previous_); }
  ThreadsScope(const ThreadsScope&) = delete;
  ThreadsScope& operator=(const ThreadsScope&) = delete;

 private:
  int previous_;
};

using Range = std::pair<std::int64_t, std::int64_t>;

std::set<Range> chunks_of(std::int64_t count, std::int64_t grain) {
  std::mutex mutex;
  std::set<Range> ranges;
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    REQUIRE(ranges.emplace(begin, end).second);
  });
  return ranges;
}

/// A sum whose order of additions matters: one partial result per chunk, added in order.
float chunked_sum(std::int64_t count, std::int64_t grain) {
  std::vector<float> partial(static_cast<std::size_t>(num_chunks(count, grain)));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    float sum = 0;
    for (std::int64_t i = begin; i < end; ++i) sum += std::sin(static_cast<float>(i)) * 1e3F;
    partial[static_cast<std::size_t>(begin / grain)] = sum;
  });
  float total = 0;
  for (float sum : partial) total += sum;
  return total;
}

}  // namespace

TEST_CASE("parallel: chunks are grain long, cover the range once and do not depend on the threads") {
  const std::set<Range> expected = {{0, 4}, {4, 8}, {8, 10}};
  for (int threads : {1, 2, 4}) {
    const ThreadsScope scope(threads);
    CHECK(chunks_of(10, 4) == expected);
    CHECK(chunks_of(8, 4).size() == 2);
    CHECK(chunks_of(3, 4) == std::set<Range>{{0, 3}});
    CHECK(chunks_of(1, 1) == std::set<Range>{{0, 1}});
    CHECK(chunks_of(0, 4).empty());
    CHECK(chunks_of(1000, 7).size() == static_cast<std::size_t>(num_chunks(1000, 7)));
  }
}

TEST_CASE("parallel: a reduction by chunks has the same bits with any number of threads") {
  float one_thread = 0;
  {
    const ThreadsScope scope(1);
    one_thread = chunked_sum(100000, 1000);
  }
  for (int threads : {2, 3, 4}) {
    const ThreadsScope scope(threads);
    for (int run = 0; run < 5; ++run) CHECK(chunked_sum(100000, 1000) == one_thread);
  }
}

TEST_CASE("parallel: several threads take part, each with an index of its own") {
  const ThreadsScope scope(2);
  CHECK(thread_index() == 0);
  std::atomic<int> arrived = 0;
  std::array<std::atomic<bool>, 2> seen{};
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    // Each chunk waits for the other, which only a second thread can run.
    ++arrived;
    while (arrived < 2) std::this_thread::yield();
    seen.at(static_cast<std::size_t>(thread_index())) = true;
  });
  CHECK(seen[0]);
  CHECK(seen[1]);
}

TEST_CASE("parallel: a thread takes its own share of the chunks first, then those of the others") {
  LoopShares shares(5, 2);  // {0, 1} and {2, 3, 4}
  LoopShares::Walk first{0}, second{1};
  CHECK(shares.next(second) == 2);
  for (const std::int64_t chunk : {0, 1, 3, 4, -1}) CHECK(shares.next(first) == chunk);
  CHECK(shares.next(second) == -1);
}

TEST_CASE("parallel: threads beyond the shares help, too") {
  LoopShares shares(256, 128);
  REQUIRE(LoopShares::count(128) < 128);
  LoopShares::Walk last{127};
  std::set<std::int64_t> chunks;
  while (true) {
    const std::int64_t chunk = shares.next(last);
    if (chunk < 0) break;
    chunks.insert(chunk);
  }
  CHECK(chunks.size() == 256);
}

TEST_CASE("parallel: a loop inside another runs on the thread that calls it") {
  const ThreadsScope scope(4);
  std::atomic<int> inner_chunks = 0;
  std::atomic<bool> moved = false;
  parallel_for(4, 1, [&](std::int64_t, std::int64_t) {
    const auto caller = std::this_thread::get_id();
    parallel_for(10, 2, [&](std::int64_t, std::int64_t) {
      ++inner_chunks;
      if (std::this_thread::get_id() != caller) moved = true;
    });
  });
  CHECK(inner_chunks == 20);
  CHECK_FALSE(moved);
}

TEST_CASE("parallel: an exception of a chunk reaches the caller, and the next loop works") {
  for (int threads : {1, 4}) {
    const ThreadsScope scope(threads);
    const auto failing = [] {
      parallel_for(100, 1, [](std::int64_t begin, std::int64_t) {
        if (begin == 57) throw ValueError("chunk 57");
      });
    };
    CHECK_THROWS_AS(failing(), ValueError);
    CHECK_THROWS_WITH(failing(), "chunk 57");
    CHECK_THROWS_AS(parallel_for(100, 1, [](std::int64_t, std::int64_t) { throw ShapeError("all"); }),
                    ShapeError);
    CHECK(chunks_of(100, 1).size() == 100);
  }
}

TEST_CASE("parallel: bad arguments are refused") {
  CHECK_THROWS_AS(parallel_for(1, 0, [](std::int64_t, std::int64_t) {}), InternalError);
  CHECK_THROWS_WITH(set_num_threads(-1), "threads: expected 0 (all processors) to 4096, found -1");
  CHECK_THROWS_AS(set_num_threads(kMaxThreads + 1), ValueError);
  CHECK_THROWS_AS(set_num_threads((std::int64_t{1} << 32) + 1), ValueError);  // 1 as an int
}

TEST_CASE("parallel: 0 threads means all processors of this process") {
  const ThreadsScope scope(1);
  REQUIRE(num_threads() == 1);
  set_num_threads(0);
  CHECK(num_threads() >= 1);
  CHECK(num_threads() <= static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

TEST_CASE("parallel: OMP_NUM_THREADS is a number of threads, or a list whose first counts") {
  const ThreadsScope scope(1);
  for (const auto& [value, threads] : {std::pair{"3", 3}, std::pair{"2,4", 2}}) {
    const EnvironmentScope environment("OMP_NUM_THREADS", value);
    set_num_threads(0);
    CHECK(num_threads() == threads);
  }
  for (const char* value : {"two", "2 ", "-1", "99999"}) {
    const EnvironmentScope environment("OMP_NUM_THREADS", value);
    CHECK_THROWS_AS(set_num_threads(0), ValueError);
  }
}
