#include "core/process_memory.h"

#include <sys/resource.h>

#include <fstream>
#include <string>

namespace moh {

std::int64_t peak_process_memory() {
  constexpr std::int64_t kKibibyte = 1024;
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name;) {
    std::int64_t kibibytes = 0;
    if (name == "VmHWM:" && status >> kibibytes) return kibibytes * kKibibyte;
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::int64_t{usage.ru_maxrss} * kKibibyte;
}

}  // namespace moh
