#pragma once

namespace moh {

/// Makes malloc keep freed memory for reuse, as CpuAllocator does, for the whole process from now on.
/// Each step allocates the same lists and buffers anew; if they went back to the system, it would page-fault
/// for them each time. CpuAllocator::trim() returns this memory, too. Does nothing where malloc is not
/// glibc's.
void keep_freed_memory();

}  // namespace moh
