#include "core/device_clock.h"

#include <catch2/catch.hpp>
#include <utility>

using namespace moh;

TEST_CASE("device clock: tells the time between marks, and begins again when cleared") {
  double now = 10;
  DeviceClock clock([&] { return now; });
  CHECK(clock.mark() == 0);
  now = 13;
  CHECK(clock.mark() == 1);
  now = 20;
  CHECK(clock.mark() == 2);
  CHECK(clock.seconds(0, 1) == 3);
  CHECK(clock.seconds(0, 2) == 10);
  CHECK(clock.seconds(1, 1) == 0);
  clock.clear();
  now = 50;
  CHECK(clock.mark() == 0);
  now = 51;
  const DeviceClock::Mark last = clock.mark();
  const DeviceClock moved = std::move(clock);
  CHECK(moved.seconds(0, last) == 1);
}

TEST_CASE("device clock: of the CPU never goes back") {
  DeviceClock clock(kCpu);
  for (int i = 0; i < 100; ++i) clock.mark();
  for (DeviceClock::Mark i = 0; i < 99; ++i) CHECK(clock.seconds(i, i + 1) >= 0);
}
