#include "tests/support/failing_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local bool failing = false;

}  // namespace

namespace moh {

FailingNew::FailingNew() {
  failing = true;
}
FailingNew::~FailingNew() {
  failing = false;
}

}  // namespace moh

// Replaces the library's. The array forms and the forms with a size call these.
void* operator new(std::size_t bytes) {
  void* block = failing ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
