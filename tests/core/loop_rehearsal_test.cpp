#include "core/loop_rehearsal.h"

#include <time.h>

#include <catch2/catch.hpp>
#include <set>
#include <thread>
#include <vector>

#include "core/parallel.h"

using namespace moh;

namespace {

/// Takes processor time, as much on a busy machine as on an idle one.
void work_ms(double ms) {
  for (const double begin = thread_seconds(); thread_seconds() < begin + 1e-3 * ms;) {
  }
}

}  // namespace

TEST_CASE("rehearsal: the busiest thread has its share, then the chunk that it is the first to take") {
  CHECK(busiest_thread(std::vector<double>(8, 1.0), 4) == 2);
  CHECK(busiest_thread(std::vector<double>(9, 1.0), 4) == 3);
  CHECK(busiest_thread(std::vector<double>(3, 1.0), 64) == 1);
  CHECK(busiest_thread(std::vector<double>{}, 4) == 0);
  // Shares of two: {5, 1}, {1, 1}. The second thread takes the chunk of 1 behind the 5.
  CHECK(busiest_thread(std::vector<double>{5, 1, 1, 1}, 2) == 5);
  CHECK(busiest_thread(std::vector<double>{1, 1, 1, 5}, 2) ==
        6);  // it has begun its share with the short one
  CHECK(busiest_thread(std::vector<double>{1, 2, 3}, 1) == 6);
}

TEST_CASE("rehearsal: threads beyond the shares help, too") {
  CHECK(busiest_thread(std::vector<double>(256, 1.0), 128) == 2);
}

TEST_CASE("rehearsal: loops are cut for its threads, run on one, and measured chunk by chunk") {
  const int before = num_threads();
  const std::thread::id caller = std::this_thread::get_id();
  std::vector<std::vector<double>> loops;
  {
    const LoopRehearsal rehearsal(4, [&](auto chunks) { loops.emplace_back(chunks.begin(), chunks.end()); });
    CHECK(num_threads() == 4);
    parallel_for(8, 1, [&](std::int64_t begin, std::int64_t) {
      CHECK(std::this_thread::get_id() == caller);
      CHECK(thread_index() == 0);
      // Inside a loop there is no other: its chunks are not measured apart.
      parallel_for(2, 1, [&](std::int64_t, std::int64_t) { work_ms(begin == 3 ? 5 : 1); });
    });
  }
  CHECK(num_threads() == before);
  REQUIRE(loops.size() == 1);
  REQUIRE(loops[0].size() == 8);
  for (const double seconds : loops[0]) CHECK(seconds >= 0.002);
  CHECK(loops[0][3] >= 0.010);
}

TEST_CASE("rehearsal: the loop inside a loop of one chunk is the one that is shared") {
  std::vector<std::size_t> loops;
  const LoopRehearsal rehearsal(2, [&](auto chunks) { loops.push_back(chunks.size()); });
  parallel_for(1, 1,
               [&](std::int64_t, std::int64_t) { parallel_for(6, 1, [](std::int64_t, std::int64_t) {}); });
  CHECK(loops == std::vector<std::size_t>{6});
}

TEST_CASE("rehearsal: another thread's loops are its own") {
  const LoopRehearsal rehearsal(64, [](auto) {});
  int others = 64;
  std::thread([&] { others = num_threads(); }).join();
  CHECK(others != 64);
}

TEST_CASE("rehearsal: an exception leaves the loop and its measurements") {
  const LoopRehearsal rehearsal(2, [](auto) {});
  const auto fail = [](std::int64_t begin, std::int64_t) {
    if (begin == 1) throw std::runtime_error("chunk");
  };
  CHECK_THROWS_AS(parallel_for(4, 1, fail), std::runtime_error);
  CHECK_FALSE(rehearsal.inside_loop());
}
