#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace moh::test {

/// A fuzz target: the LLVMFuzzerTestOneInput of tests/fuzz/NAME_fuzz.cpp.
struct FuzzTarget {
  const char* name;
  int (*function)(const std::uint8_t* data, std::size_t size);
};

/// All targets of this build; tests/fuzz/CMakeLists.txt writes the definition.
const std::vector<FuzzTarget>& fuzz_targets();

}  // namespace moh::test
