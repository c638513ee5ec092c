#pragma once

namespace moh {

/// Has malloc keep what is freed, as CpuAllocator does with its blocks, for the whole process from now on.
/// Libraries take scratch memory from malloc in every product (oneDNN's packed operands); where that is given
/// back to the system, each call pays for fresh pages. CpuAllocator::trim() returns this memory, too. Does
/// nothing where malloc is not glibc's.
void keep_freed_memory();

}  // namespace moh
