#pragma once

#include <array>

namespace moh::test {

/// Numbers of threads at which a case compares an op's bits with those of one thread. Under sanitizers there
/// is one of them: all make the same accesses, and those of large inputs take their time.
#ifdef MOH_SANITIZED
inline constexpr std::array kThreadCounts = {5};
#else
inline constexpr std::array kThreadCounts = {2, 5, 16};
#endif

}  // namespace moh::test
