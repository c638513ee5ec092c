#define CATCH_CONFIG_EXTERNAL_INTERFACES  // the base of listeners
#include "tests/support/skip.h"

#include <catch2/catch.hpp>
#include <iostream>
#include <stdexcept>

namespace moh::test {

namespace {

/// The note of the running test case that it is skipped.
struct Skip {
  std::string reason;            // empty: it is not skipped
  bool if_nothing_else = false;  // that ran
  std::size_t failures = 0;      // of its assertions, by throwing
};
Skip current;

class SkipListener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo&) override { current = {}; }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const Catch::Counts& assertions = stats.totals.assertions;
    if (current.reason.empty() || assertions.failed > current.failures) return;
    if (current.if_nothing_else && assertions.passed > 0) return;
    std::cout << "moh test skipped: " << current.reason << std::endl;
  }
};
CATCH_REGISTER_LISTENER(SkipListener)

}  // namespace

void skip_test_case(const std::string& reason) {
  current = {reason};
}

void throw_skip(const std::string& reason) {
  current = {.reason = reason, .failures = current.failures + 1};  // one more for each section that skips
  throw std::runtime_error(reason);
}

void leave_out(const std::string& part, const std::string& reason) {
  std::cout << "moh test left out: " << part << ": " << reason << std::endl;
  if (current.reason.empty()) current = {.reason = reason, .if_nothing_else = true};
}

}  // namespace moh::test
