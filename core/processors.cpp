#include "core/processors.h"

#include <pthread.h>
#include <sched.h>

#include <strings.h>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace moh {
namespace {

/// A set of processors as the system's calls take it, of any size.
class Mask {
 public:
  static constexpr std::size_t kProcessors = 65536;  // more than any kernel knows

  bool has(std::size_t i) const { return (words_[i / kBits] >> (i % kBits) & 1UL) != 0; }
  void add(std::size_t i) { words_[i / kBits] |= 1UL << (i % kBits); }
  cpu_set_t* data() { return reinterpret_cast<cpu_set_t*>(words_.data()); }
  std::size_t bytes() const { return words_.size() * sizeof(unsigned long); }

 private:
  static constexpr std::size_t kBits = sizeof(unsigned long) * 8;
  std::vector<unsigned long> words_ = std::vector<unsigned long>(kProcessors / kBits);
};

/// Whether a processor is the first of its core: those of a core name all of them, the lowest number first.
bool is_first_of_core(int processor) {
  std::ifstream siblings("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                         "/topology/thread_siblings_list");
  int first = processor;
  siblings >> first;
  return first == processor;
}

std::vector<int> read_processors() {
  Mask mask;
  const int status = sched_getaffinity(0, mask.bytes(), mask.data());
  MOH_CHECK(status == 0, "sched_getaffinity refused a mask of 65536 processors");
  std::vector<int> found;
  for (std::size_t i = 0; i < Mask::kProcessors; ++i) {
    if (mask.has(i)) found.push_back(static_cast<int>(i));
  }
  return found;
}

const std::vector<int>& processors() {
  static const std::vector<int> found = read_processors();
  return found;
}

/// One of each core, then the others.
const std::vector<int>& processors_by_core() {
  static const std::vector<int> ordered = [] {
    std::vector<int> order = processors();
    std::stable_partition(order.begin(), order.end(), is_first_of_core);
    return order;
  }();
  return ordered;
}

bool is_binding_asked() {
  const char* const value = std::getenv("OMP_PROC_BIND");
  return value != nullptr && *value != '\0' && strcasecmp(value, "false") != 0;
}

}  // namespace

int usable_processors() {
  return static_cast<int>(processors().size());
}

void bind_if_asked(std::thread& thread, std::size_t index) {
  if (!is_binding_asked()) return;
  const std::vector<int>& order = processors_by_core();
  const int processor = order[index % order.size()];
  Mask mask;
  mask.add(static_cast<std::size_t>(processor));
  const int status = pthread_setaffinity_np(thread.native_handle(), mask.bytes(), mask.data());
  if (status == 0) return;
  throw Error(error_message("OMP_PROC_BIND", "", "a thread on processor " + std::to_string(processor),
                            std::generic_category().message(status)));
}

}  // namespace moh
