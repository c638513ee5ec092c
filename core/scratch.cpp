#include "core/scratch.h"

#include "core/allocator.h"

namespace moh {

Scratch::Scratch(std::size_t bytes)
    : data_(CpuAllocator::instance().allocate(bytes, MemoryPurpose::kWorkspace)), bytes_(bytes) {}

Scratch::~Scratch() {
  CpuAllocator::instance().release(data_, bytes_, MemoryPurpose::kWorkspace);
}

}  // namespace moh
