#include "tests/support/opening_cost.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>

#include "core/error.h"
#include "tests/support/child_process.h"

namespace moh {

namespace {

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

OpeningCost cost_of_opening(FunctionRef<void()> open) {
  const ChildResult child = run_in_child([&] {
    const double before = peak_megabytes();
    const auto start = std::chrono::steady_clock::now();
    std::string message = "accepted";
    try {
      open();
    } catch (const Error& error) {
      message = error.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    return std::to_string(peak_megabytes() - before) + ' ' + std::to_string(seconds.count()) + ' ' + message;
  });
  REQUIRE(child.exit_code == 0);
  OpeningCost cost;
  int at = 0;
  REQUIRE(std::sscanf(child.output.c_str(), "%lf %lf %n", &cost.megabytes, &cost.seconds, &at) == 2);
  cost.message = child.output.substr(static_cast<std::size_t>(at));
  return cost;
}

}  // namespace moh
