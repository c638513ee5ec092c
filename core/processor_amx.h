#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace moh {

#if defined(__x86_64__)
/// Whether the operating system lets this process use the tiles of AMX. Linux wants to be asked, as signal
/// frames grow by 8 KiB; its answer is for all threads, and is no where a thread has too small a stack for
/// signals (Documentation/arch/x86/xstate.rst).
inline bool may_use_amx() {
#if defined(__linux__)
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  static const bool granted = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return granted;
#else
  return false;
#endif
}

/// Whether the processor has AMX-TILE and AMX-BF16, by CPUID as not all compilers know them by name, and may
/// use them.
inline bool processor_has_amx() {
  constexpr unsigned kAmxBf16 = 1U << 22, kAmxTile = 1U << 24;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0 && (d & kAmxTile) != 0 &&
         may_use_amx();
}
#endif

}  // namespace moh
