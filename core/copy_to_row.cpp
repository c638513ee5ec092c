#include "core/copy_to_row.h"

#include <algorithm>
#include <vector>

#include "core/cuda/backend.h"
#include "core/dry_run.h"
#include "core/error.h"

namespace moh {

void copy_to_row(const Tensor& rows, const Tensor& number, std::span<const Tensor> parts) {
  std::int64_t width = 0;
  for (const Tensor& part : parts) width += part.numel();
  MOH_CHECK(rows.rank() == 2 && rows.dtype() == DType::kFloat64 && rows.dim(1) == width,
            "copy_to_row: the parts are a row of float64");
  MOH_CHECK(number.numel() == 1 && number.dtype() == DType::kInt64, "copy_to_row: the number is an int64");
  const bool together =
      std::ranges::all_of(parts, [&](const Tensor& part) { return part.device() == rows.device(); });
  MOH_CHECK(together && number.device() == rows.device(), "copy_to_row: all tensors are on one device");
  if (dry_run() || width == 0) return;
  if (rows.device() != kCpu) {
    std::vector<cuda::RowPart> on_device;
    for (const Tensor& part : parts) on_device.push_back({part.raw(), part.dtype(), part.numel()});
    return cuda::copy_to_row(rows.data<double>(), number.data<std::int64_t>(), width, on_device);
  }
  const std::int64_t at = *number.data<std::int64_t>();
  MOH_CHECK(at >= 0 && at < rows.dim(0), "copy_to_row: the number is that of a row");
  const Tensor row = rows.select(at);
  std::int64_t begin = 0;
  for (const Tensor& part : parts) {
    row.slice(begin, begin + part.numel()).copy_from(part.reshape({part.numel()}));
    begin += part.numel();
  }
}

}  // namespace moh
