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

// Replace the library's: all that a program may call, as the address sanitizer's own forms do not go through
// these.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return failing ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  void* block = operator new(bytes, std::nothrow);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* operator new[](std::size_t bytes) {
  return operator new(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes, std::nothrow);
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
void operator delete[](void* block) noexcept {
  std::free(block);
}
void operator delete[](void* block, std::size_t) noexcept {
  std::free(block);
}
