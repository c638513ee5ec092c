#include "train/comm/collective_watchdog.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <mutex>
#include <stdexcept>

using namespace moh;

namespace {

/// Collectives without a device, of which a test says what they do.
struct Fake {
  std::atomic<std::uint64_t> begun = 0, ended = 0;
  std::atomic<bool> has_error = false, is_lost = false;
  std::atomic<int> aborts = 0, ends = 0;

  CollectiveWatchdog::Watched watched() {
    return {.counts =
                [this] {
                  return cuda::CollectiveCounts{begun, ended};
                },
            .check =
                [this] {
                  if (has_error) throw std::runtime_error("a broken connection");
                },
            .trouble = [this] { return std::string(is_lost ? "rank 1 ended without a word" : ""); },
            .abort = [this] { ++aborts; },
            .end_process = [this] { ++ends; }};
  }
};

constexpr CollectiveWatchdog::Times kQuick{.between = 0.001, .until_end = 0.1, .until_stop = 600};

template <class Condition>
bool soon(const Condition& condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace

TEST_CASE("watchdog: collectives that make progress are left alone, however long all of them take") {
  Fake fake;
  CollectiveWatchdog watchdog(fake.watched(), /*deadline=*/0.2, kQuick);
  for (int i = 0; i < 20; ++i) {  // each for a while, all for twice the deadline
    ++fake.begun;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++fake.ended;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // nothing is under way
  CHECK(!watchdog.has_failed());
  CHECK(fake.aborts == 0);
}

TEST_CASE("watchdog: a collective that takes too long is ended, and named") {
  Fake fake;
  fake.begun = 7;
  fake.ended = 6;
  CollectiveWatchdog watchdog(fake.watched(), 0.05, kQuick);
  REQUIRE(soon([&] { return fake.aborts == 1; }));
  REQUIRE(watchdog.has_failed());
  CHECK_THAT(watchdog.acknowledge(),
             Catch::Contains("collective 7 on the GPU: expected its end within comm.timeout"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(fake.ends == 0);  // it was acknowledged
}

TEST_CASE("watchdog: without a deadline a collective may take any time") {
  Fake fake;
  fake.begun = 1;
  CollectiveWatchdog watchdog(fake.watched(), 0, kQuick);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(!watchdog.has_failed());
}

TEST_CASE("watchdog: an error of the library, and a lost process, end the collectives at once") {
  Fake fake;
  CollectiveWatchdog watchdog(fake.watched(), 600, kQuick);
  std::string expected;
  SECTION("error") {
    fake.has_error = true;
    expected = "a broken connection";
  }
  SECTION("lost process") {
    fake.is_lost = true;
    expected = "rank 1 ended without a word";
  }
  REQUIRE(soon([&] { return fake.aborts == 1; }));
  CHECK(watchdog.acknowledge() == expected);
}

TEST_CASE("watchdog: a process that does not come back from the device is ended") {
  Fake fake;
  fake.is_lost = true;
  const CollectiveWatchdog watchdog(fake.watched(), 600, kQuick);
  CHECK(soon([&] { return fake.ends == 1; }));
}

TEST_CASE("watchdog: so is one that knows, and still does not come back") {
  Fake fake;
  fake.is_lost = true;
  CollectiveWatchdog watchdog(fake.watched(), 600, {.between = 0.001, .until_end = 600, .until_stop = 0.1});
  REQUIRE(soon([&] { return watchdog.has_failed(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(fake.ends == 0);
  watchdog.acknowledge();
  CHECK(soon([&] { return fake.ends == 1; }));
}

TEST_CASE("watchdog: it stops while a process is to be ended") {
  Fake fake;
  fake.is_lost = true;
  {
    const CollectiveWatchdog watchdog(fake.watched(), 600, {.between = 0.001, .until_end = 600});
    REQUIRE(soon([&] { return fake.aborts == 1; }));
  }
  CHECK(fake.ends == 0);
}
