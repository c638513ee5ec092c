#pragma once

#include "ops/cpu/reduce.h"
#include "ops/op.h"

namespace moh {
namespace {

/// Workspace of CPU kernels that sum over rows, for run_kernel; that of GPU kernels is too small to count.
struct RowSumsWorkspace {
  Rows rows;

  template <class Backend, class T>
  std::size_t operator()() const {
    if constexpr (std::is_same_v<Backend, Cuda>) return 0;
    return row_sums_bytes<Acc<T>>(rows.count, rows.width);
  }
};

}  // namespace
}  // namespace moh
