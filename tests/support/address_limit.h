#pragma once

#include <sys/resource.h>

#include <cstddef>
#include <fstream>

namespace moh::test {

/// Lets the process, a child of run_in_child(), use `more` bytes of address space beside what it has.
inline void limit_address_space(std::size_t more) {
  constexpr std::size_t kPage = 4096;
  std::size_t used_pages = 0;
  std::ifstream("/proc/self/statm") >> used_pages;
  const rlimit limit{used_pages * kPage + more, used_pages * kPage + more};
  ::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace moh::test
