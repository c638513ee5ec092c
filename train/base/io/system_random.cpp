#include "train/base/io/system_random.h"

#include <sys/random.h>

#include "core/error.h"

namespace moh {

// By the system call: std::random_device, linked statically, calls arc4random, and so would a package
// (cmake/MohPackage.cmake) need glibc 2.36.
std::uint64_t system_random() {
  std::uint64_t bits = 0;
  MOH_CHECK(::getrandom(&bits, sizeof bits, 0) == sizeof bits, "expected 8 random bytes of the system");
  return bits;
}

}  // namespace moh
