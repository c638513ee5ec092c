#pragma once

// For kernel files only (they are compiled once per instruction set): everything here has internal linkage.

#include <cstdint>

#include "core/parallel.h"

namespace moh {
namespace {

/// Calls body(i) for every i in [0, count), in parallel and vectorised: calls must not depend on each other.
template <class Body>
[[maybe_unused]] [[gnu::always_inline]] inline void for_each_element(std::int64_t count, const Body& body) {
  constexpr std::int64_t kGrain = 1 << 14;
  parallel_for(count, kGrain, [&body](std::int64_t begin, std::int64_t end) {
    const Body local = body;  // a local copy, so that stores in the loop cannot alias the captures
#pragma omp simd
    for (std::int64_t i = begin; i < end; ++i) local(i);
  });
}

}  // namespace
}  // namespace moh
