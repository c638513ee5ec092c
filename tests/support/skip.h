#pragma once

#include <string>

// ctest counts a test case as skipped that writes "moh test skipped: REASON" (tests/CMakeLists.txt), whatever
// else it does; Catch2 v2's exit code is the number of failed assertions and has no value left for this. So
// the line is written when a case has ended, and only for a case of which no check failed.

namespace moh::test {

/// The test case that runs is skipped.
void skip_test_case(const std::string& reason);

/// Skips from within calls: throws, which ends the case.
[[noreturn]] void throw_skip(const std::string& reason);

/// A part of the test case that runs is left out. The case is skipped if there is nothing else in it.
void leave_out(const std::string& part, const std::string& reason);

}  // namespace moh::test

/// Leaves a test case whose precondition this machine lacks, and says why.
#define MOH_SKIP(reason)               \
  do {                                 \
    moh::test::skip_test_case(reason); \
    return;                            \
  } while (false)
