#include "core/keep_freed_memory.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstdlib>

#if defined(__GLIBC__) && !defined(MOH_SANITIZED)  // sanitizers bring a malloc of their own

using namespace moh;

namespace {

/// Page faults of the process while 16 MiB come from malloc, are written to and go back.
long faults_of_a_block() {
  constexpr std::size_t kBytes = 16 << 20;
  constexpr std::size_t kPage = 4096;
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  auto* block = static_cast<volatile char*>(std::malloc(kBytes));
  for (std::size_t i = 0; i < kBytes; i += kPage) block[i] = 1;
  std::free(const_cast<char*>(block));
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

}  // namespace

TEST_CASE("memory: what malloc got back is handed out again without page faults") {
  keep_freed_memory();
  faults_of_a_block();
  CHECK(faults_of_a_block() < 16);
  CHECK(faults_of_a_block() < 16);
}

#endif
