#include "core/threads.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string>

#include "core/thread_team.h"
#include "tests/support/address_limit.h"
#include "tests/support/child_process.h"

using namespace moh;

namespace {

constexpr std::size_t kMore = 1000;  ///< threads than there is room for

/// Threads that do nothing until they are told to end.
class Idle {
 public:
  void start(std::size_t count) {
    group_.start({"data.workers", "set data.workers to fewer"}, count, [this] {
      while (!stopped_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  }

 private:
  std::atomic<bool> stopped_ = false;
  ThreadGroup group_{[this] { stopped_ = true; }};
};

/// Runs `body` in a process with room for a few stacks of threads.
ChildResult with_few_threads(const std::function<std::string()>& body) {
  return run_in_child([&] {
    test::limit_address_space(std::size_t{200} << 20);
    return body();
  });
}

/// Runs `body` in a process with room for no thread more.
ChildResult without_threads(const std::function<std::string()>& body) {
  return with_few_threads([&] {
    Idle idle;
    try {
      idle.start(kMore);
    } catch (const ThreadError&) {
    }
    return body();
  });
}

}  // namespace

TEST_CASE("threads: a group stops and joins its threads") {
  std::atomic<bool> stopped = false;
  std::atomic<int> ended = 0;
  {
    ThreadGroup group([&] { stopped = true; });
    CHECK(group.empty());
    group.start({"test"}, 3, [&] {
      while (!stopped) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++ended;
    });
    CHECK_FALSE(group.empty());
  }
  CHECK(ended == 3);
}

TEST_CASE("threads: a group without threads is not stopped") {
  bool stopped = false;
  {
    const ThreadGroup group([&] { stopped = true; });
  }
  CHECK_FALSE(stopped);
}

TEST_CASE("threads: of those that the system refuses, the error says how many came, and these are joined") {
  const ChildResult result = with_few_threads([] {
    Idle().start(kMore);
    return std::string("all were started");
  });
  CHECK(result.exit_code == 1);
  CHECK_THAT(
      result.output,
      Catch::Matches(R"(data\.workers: expected 1000 threads, found \d+, then the system refused another )"
                     R"(one \(.+\); set data\.workers to fewer, or raise the limits on .+)"));
}

TEST_CASE("threads: a team's threads that the system refuses") {
  const ChildResult result = with_few_threads([] {
    ThreadTeam().run(static_cast<int>(kMore), [](int) {});
    return std::string("all were started");
  });
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, Catch::Contains("threads: expected 1000 threads, found ") &&
                                Catch::Contains("set `threads` or OMP_NUM_THREADS to fewer"));
}

TEST_CASE("threads: a single one that the system refuses") {
  const ChildResult result = without_threads([] {
    start_thread({"comm"}, [] {}).join();
    return std::string();
  });
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, Catch::Contains("comm: expected a thread, found that the system refused it ("));
}

TEST_CASE("threads: work whose thread the system refuses is done by whoever waits for it") {
  const ChildResult result = without_threads([] {
    std::string warning;
    auto work = start_async_or_defer(
        {"checkpoint.asynchronous"}, [] { return 7; }, [&](const std::string& reason) { warning = reason; });
    return std::to_string(work.get()) + " " + warning;
  });
  CHECK_THAT(result.output, Catch::StartsWith("7 checkpoint.asynchronous: expected a thread, found "));
}

TEST_CASE("threads: an exception that leaves a thread ends the program with its message") {
  const ChildResult result = run_in_child([] {
    start_thread({"test"}, [] { throw std::runtime_error("out of luck"); }).join();
    return std::string("went on");
  });
  CHECK(result.exit_code == 1);
  CHECK(result.signal == 0);
  CHECK(result.output.empty());
}

TEST_CASE("threads: a process ends at once if one is left behind") {
  const ChildResult result = run_in_child([] {
    const int returned = end_process(2);
    leave_behind(start_thread({"test"}, [] { std::this_thread::sleep_for(std::chrono::hours(1)); }));
    end_process(returned + 1);
    return std::string("went on");
  });
  CHECK(result.exit_code == 3);
  CHECK(result.output.empty());
}
