#pragma once

namespace moh {

/// Makes malloc keep freed memory for reuse, as CpuAllocator does, for the whole process from now on.
/// Libraries allocate scratch memory with malloc in every matrix multiplication (oneDNN's packed operands);
/// if it went back to the system, each call would page-fault anew. CpuAllocator::trim() returns this memory,
/// too. Does nothing where malloc is not glibc's.
void keep_freed_memory();

}  // namespace moh
