#include "train/tasks/data/prefetcher.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "core/dry_run.h"
#include "core/error.h"

using namespace moh;
using namespace std::chrono_literals;

TEST_CASE("data: a prefetcher works ahead, as far as its depth and no further") {
  std::atomic<int> made = 0;
  Prefetcher<std::int64_t> prefetcher([&](std::int64_t i) { return ++made, i; }, 10, 3);
  for (int wait = 0; made < 3 && wait < 1000; ++wait) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  CHECK(made == 3);
  CHECK(prefetcher.position() == 10);
  CHECK(prefetcher.next() == 10);
  CHECK(prefetcher.next() == 11);
  CHECK(prefetcher.position() == 12);
}

TEST_CASE("data: in a dry run a prefetcher has no thread, and holds as much as one with a thread") {
  const DryRunScope scope;
  int made = 0;
  const auto here = std::this_thread::get_id();
  Prefetcher<std::int64_t> prefetcher(
      [&](std::int64_t i) {
        CHECK(std::this_thread::get_id() == here);
        return ++made, i;
      },
      10, 3);
  CHECK(prefetcher.next() == 10);
  CHECK(prefetcher.next() == 11);
  CHECK(made == 2 + 3);
}

TEST_CASE("data: an exception reaches the consumer after the items before it, and stays") {
  const auto make = [](std::int64_t i) {
    if (i == 2) throw DataError("tokens.bin: gone");
    return i;
  };
  for (int depth : {0, 1, 5}) {
    Prefetcher<std::int64_t> prefetcher(make, 0, depth);
    CHECK(prefetcher.next() == 0);
    CHECK(prefetcher.next() == 1);
    CHECK_THROWS_AS(prefetcher.next(), DataError);
    CHECK_THROWS_WITH(prefetcher.next(), "tokens.bin: gone");
    CHECK(prefetcher.position() == 2);
  }
}

TEST_CASE("data: a prefetcher ends at once, with a full queue and in the middle of its work") {
  for (int round = 0; round < 50; ++round) {
    Prefetcher<std::int64_t> full([](std::int64_t i) { return i; }, 0, 2);
    Prefetcher<std::int64_t> busy([](std::int64_t i) { return std::this_thread::sleep_for(1ms), i; }, 0, 2);
    if (round % 2 == 0) CHECK(full.next() == 0);
  }
}
