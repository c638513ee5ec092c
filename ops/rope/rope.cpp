#include "ops/rope/rope.h"

#include <cmath>
#include <span>

#include "core/parallel.h"
#include "ops/op.h"
#include "ops/rope/rope_kernels.h"

namespace moh {

namespace {

template <class T>
void fill_table(const RopeTable& table, std::span<const double> frequencies) {
  const std::int64_t half = table.cos.dim(1);
  T* cos = table.cos.data<T>();
  T* sin = table.sin.data<T>();
  parallel_for(table.cos.dim(0), 64, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(p) * frequencies[static_cast<std::size_t>(i)];
        cos[p * half + i] = static_cast<T>(std::cos(angle));
        sin[p * half + i] = static_cast<T>(std::sin(angle));
      }
    }
  });
}

void check_table(const Variable& x, const RopeTable& table, std::int64_t first_position) {
  const auto check_part = [&](std::string_view name, const Tensor& part) {
    if (!part.defined()) throw ValueError(error_message("rope", name, "a tensor", "none"));
    if (part.dtype() != accumulate_dtype(x.dtype())) {
      throw DTypeError(error_message("rope", name, dtype_name(accumulate_dtype(x.dtype())),
                                     dtype_name(part.dtype()), "pass this dtype to rope_table"));
    }
    if (part.device() != x.device()) {
      throw DeviceError(
          error_message("rope", name, device_name(x.device()) + " as x", device_name(part.device())));
    }
    if (part.rank() != 2 || part.dim(1) != x.dim(3) / 2 || part.dim(0) != table.cos.dim(0)) {
      throw ShapeError(error_message("rope", name, "[positions, " + std::to_string(x.dim(3) / 2) + "]",
                                     to_string(part.shape())));
    }
  };
  check_part("table.cos", table.cos);
  check_part("table.sin", table.sin);
  if (first_position < 0) {
    throw ValueError(error_message("rope", "first_position", "0 or more", std::to_string(first_position)));
  }
  if (x.dim(1) > table.cos.dim(0) || first_position > table.cos.dim(0) - x.dim(1)) {
    throw ValueError(error_message(
        "rope", "positions", "at most " + std::to_string(table.cos.dim(0)) + ", the rows of the table",
        std::to_string(x.dim(1)) + " tokens from position " + std::to_string(first_position) + " on",
        "build the table for more positions"));
  }
}

void check_starts(const Variable& x, const Tensor& starts) {
  if (!starts.defined()) return;
  Check("rope")
      .dtype("document_starts", Variable(starts), DType::kInt32)
      .shape("document_starts", Variable(starts), {x.dim(0), x.dim(1)});
  if (starts.device() != x.device()) {
    throw DeviceError(error_message("rope", "document_starts", device_name(x.device()) + " as x",
                                    device_name(starts.device())));
  }
}

/// `starts` may be undefined.
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin, const Tensor& starts, int direction) {
  const RopeSizes sizes{x.dim(0), x.dim(1), x.dim(2), x.dim(3) / 2,
                        starts.defined() ? starts.data<std::int32_t>() : nullptr};
  Tensor y = empty_like(x);
  run_kernel("rope", x, [&]<class Backend, class T>() {
    RopeKernels<Backend, T>::rotate(x.data<T>(), cos.data<Acc<T>>(), sin.data<Acc<T>>(),
                                    static_cast<Acc<T>>(direction), y.data<T>(), sizes);
  });
  return y;
}

}  // namespace

RopeTable rope_table(std::int64_t num_positions, std::int64_t head_dim, double theta, DType dtype,
                     Device device, const RopeScaling& scaling) {
  Check("rope_table")
      .require(num_positions >= 0, "num_positions", "0 or more", std::to_string(num_positions));
  const std::vector<double> frequencies = rope_frequencies(head_dim, theta, scaling);
  const Shape shape{num_positions, head_dim / 2};
  RopeTable table{empty(shape, dtype), empty(shape, dtype)};
  switch (dtype) {
    case DType::kFloat32:
      fill_table<float>(table, frequencies);
      break;
    case DType::kFloat64:
      fill_table<double>(table, frequencies);
      break;
    default:
      throw DTypeError(error_message("rope_table", "dtype", "float32 or float64", dtype_name(dtype)));
  }
  return {table.cos.to(device), table.sin.to(device)};
}

Variable rope(const Variable& x, const RopeTable& table, std::int64_t first_position,
              const Tensor& document_starts) {
  Check("rope").floating("x", x).rank("x", x, 4);
  Check("rope").require(x.dim(3) % 2 == 0, "x", "an even last axis", to_string(x.shape()));
  check_table(x, table, first_position);
  check_starts(x, document_starts);
  const Tensor cos = table.cos.slice(first_position, first_position + x.dim(1));
  const Tensor sin = table.sin.slice(first_position, first_position + x.dim(1));
  return record("rope", rotated(x.value(), cos, sin, document_starts, 1), {x},
                [cos, sin, document_starts](const Tensor& dy) -> Grads {
                  return {rotated(dy, cos, sin, document_starts, -1)};
                });
}

}  // namespace moh
