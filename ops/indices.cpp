#include "ops/indices.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "core/cuda/fault.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "ops/indices_kernels.h"

namespace moh {

namespace {

/// The multi-dimensional index of element `flat` in a tensor of this shape: "[2, 5]".
std::string place_of(const Shape& shape, std::int64_t flat) {
  std::array<std::int64_t, Shape::kMaxRank> place{};
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place[static_cast<std::size_t>(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return to_string(
      Shape(std::span<const std::int64_t>(place.data(), static_cast<std::size_t>(shape.rank()))));
}

std::string describe(const IndexRange& range) {
  std::string text = "0 to " + std::to_string(range.bound - 1);
  if (range.ignored) text += " or " + std::to_string(*range.ignored);
  return text.append(" (").append(range.of).append(")");
}

void check_on_device(std::string_view op, std::string_view name, const Tensor& wide,
                     const IndexRange& range) {
  IndexKernels<Cuda>::check(
      wide.data<std::int64_t>(), wide.numel(), range.bound, range.ignored.value_or(range.bound - 1),
      cuda::fault_kind(std::string(op) + ": " + std::string(name) + ": expected " + describe(range)));
}

Tensor checked_on_device(std::string_view op, std::string_view name, const Tensor& indices,
                         const IndexRange& range) {
  Tensor wide = indices.to(DType::kInt64);
  // Elements out of range are replaced, so an int64 operand must be copied: it belongs to the caller.
  if (wide.shares_storage_with(indices)) wide = indices.clone();
  if (!dry_run()) check_on_device(op, name, wide, range);
  return wide;
}

}  // namespace

Tensor checked_indices(std::string_view op, std::string_view name, const Tensor& indices, Device device,
                       const IndexRange& range) {
  if (!indices.defined()) throw ValueError(error_message(op, name, "a tensor", "none"));
  if (indices.dtype() != DType::kInt32 && indices.dtype() != DType::kInt64) {
    throw DTypeError(error_message(op, name, "int32 or int64", dtype_name(indices.dtype())));
  }
  if (indices.device() != device) {
    throw DeviceError(error_message(op, name, device_name(device), device_name(indices.device())));
  }
  if (device != kCpu) return checked_on_device(op, name, indices, range);
  Tensor wide = indices.to(DType::kInt64);
  if (dry_run()) return wide;
  const auto values = wide.span<std::int64_t>();
  const auto wrong = std::find_if(values.begin(), values.end(), [&](std::int64_t value) {
    return (value < 0 || value >= range.bound) && value != range.ignored;
  });
  if (wrong != values.end()) {
    throw ValueError(
        error_message(op, name, describe(range),
                      std::to_string(*wrong) + " at " + place_of(indices.shape(), wrong - values.begin())));
  }
  return wide;
}

}  // namespace moh
