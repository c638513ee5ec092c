#include "core/copy_to_row.h"

#include "core/cuda/backend.h"
#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

void copy_to_row(const Tensor& rows, const Tensor& number, const Tensor& row) {
  MOH_CHECK(rows.rank() > 0 && rows.dtype() == row.dtype() && row.numel() * rows.dim(0) == rows.numel(),
            "copy_to_row: a row has the shape and the dtype of those that it joins");
  MOH_CHECK(number.numel() == 1 && number.dtype() == DType::kInt64, "copy_to_row: the number is an int64");
  MOH_CHECK(row.device() == rows.device() && number.device() == rows.device(),
            "copy_to_row: all tensors are on one device");
  if (dry_run() || row.numel() == 0) return;
  if (rows.device() != kCpu)
    return cuda::copy_to_row(rows.raw(), number.data<std::int64_t>(), row.raw(), row.dtype(), row.numel());
  const std::int64_t at = *number.data<std::int64_t>();
  MOH_CHECK(at >= 0 && at < rows.dim(0), "copy_to_row: the number is that of a row");
  rows.select(at).copy_from(row);
}

}  // namespace moh
