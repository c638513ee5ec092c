#pragma once

#include <nccl.h>

namespace moh::cuda {

/// The functions of NCCL that moh calls, as members of the same names.
struct NcclLibrary {
  /// Loads the library at the first call. Throws ConfigError where there is none, or one that is too old.
  static const NcclLibrary& get();

#define MOH_NCCL_FUNCTIONS(X) \
  X(ncclAllGather)            \
  X(ncclAllReduce)            \
  X(ncclBroadcast)            \
  X(ncclCommAbort)            \
  X(ncclCommDestroy)          \
  X(ncclCommFinalize)         \
  X(ncclCommGetAsyncError)    \
  X(ncclCommInitRankConfig)   \
  X(ncclGetErrorString)       \
  X(ncclGetLastError)         \
  X(ncclGetUniqueId)          \
  X(ncclGetVersion)           \
  X(ncclGroupEnd)             \
  X(ncclGroupStart)           \
  X(ncclRecv)                 \
  X(ncclReduceScatter)        \
  X(ncclSend)
#define MOH_DECLARE(name) decltype(&::name) name;  // NOLINT: a name takes no parentheses
  MOH_NCCL_FUNCTIONS(MOH_DECLARE)
#undef MOH_DECLARE
};

}  // namespace moh::cuda
