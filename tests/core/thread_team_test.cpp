#include "core/thread_team.h"

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

using namespace moh;

namespace {

constexpr int kMany = 16;  // more than the processors of most machines, so that some begin late or not at all

/// Runs `loops` loops of `threads` and checks each.
void run_loops(ThreadTeam& team, int threads, int loops) {
  for (int loop = 0; loop < loops; ++loop) {
    std::array<int, kMany> calls{};  // not atomic: each belongs to a thread, and `run` hands them over
    std::atomic<int> inside = 0;
    team.run(threads, [&](int thread) {
      ++inside;
      ++calls.at(static_cast<std::size_t>(thread));
      --inside;
    });
    REQUIRE(inside == 0);
    REQUIRE(calls[0] == 1);
    for (int i = 1; i < kMany; ++i) REQUIRE(calls.at(static_cast<std::size_t>(i)) <= (i < threads ? 1 : 0));
  }
}

void sleep_for_milliseconds(int count) {
  std::this_thread::sleep_for(std::chrono::milliseconds(count));
}

}  // namespace

TEST_CASE("thread team: each thread begins at most once, the caller's always, and none runs on afterwards") {
  ThreadTeam team;
  for (int threads : {1, 2, kMany, 3}) run_loops(team, threads, 2000);
}

TEST_CASE("thread team: threads that went to sleep are woken") {
  ThreadTeam team;
  std::atomic<int> begun = 0;
  for (int loop = 0; loop < 5; ++loop) {
    begun = 0;
    team.run(3, [&](int) {
      ++begun;
      while (begun < 3) std::this_thread::yield();  // all three have to come
    });
    CHECK(begun == 3);
    sleep_for_milliseconds(5);
  }
}

TEST_CASE("thread team: the caller waits for a thread that has begun, however long it takes") {
  ThreadTeam team;
  for (int loop = 0; loop < 5; ++loop) {
    std::atomic<bool> begun = false;
    bool finished = false;
    team.run(2, [&](int thread) {
      if (thread == 0) {
        while (!begun) std::this_thread::yield();
        return;
      }
      begun = true;
      sleep_for_milliseconds(5);  // beyond the time for which the caller spins
      finished = true;
    });
    CHECK(finished);
  }
}

TEST_CASE("thread team: teams of several threads do not meet, and end with them, asleep or not") {
  for (int pause : {0, 2}) {
    std::vector<std::thread> callers;
    std::atomic<int> done = 0;
    for (int i = 0; i < 4; ++i) {
      callers.emplace_back([&done, pause] {
        std::optional<ThreadTeam> team(std::in_place);
        run_loops(*team, 3, 200);
        sleep_for_milliseconds(pause);
        team.reset();
        ++done;
      });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(done == 4);
  }
}
