#include "ops/rope/rope.h"

#include <cmath>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "ops/op.h"
#include "ops/rope/rope_kernels.h"

namespace moh {

namespace {

/// The positions of a table, the frequencies of its pairs, and the factor of its elements.
struct Angles {
  std::int64_t first_position;
  std::vector<double> frequencies;
  double factor;
};

template <class T>
void fill_table(const RopeTable& table, const Angles& angles) {
  const std::int64_t half = table.cos.dim(1);
  T* cos = table.cos.data<T>();
  T* sin = table.sin.data<T>();
  parallel_for(table.cos.dim(0), 64, [=, &angles](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      const auto position = static_cast<double>(angles.first_position + p);
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = position * angles.frequencies[static_cast<std::size_t>(i)];
        cos[p * half + i] = static_cast<T>(angles.factor * std::cos(angle));
        sin[p * half + i] = static_cast<T>(angles.factor * std::sin(angle));
      }
    }
  });
}

void rotate(const Tensor& x, const RopeTable& table, const RopeSizes& sizes, int direction, const Tensor& y) {
  run_kernel("rope", x, [&]<class Backend, class T>() {
    RopeKernels<Backend, T>::rotate(x.data<T>(), table.cos.data<Acc<T>>(), table.sin.data<Acc<T>>(),
                                    static_cast<Acc<T>>(direction), y.data<T>(), sizes);
  });
}

Tensor rotated(const Tensor& x, const RopeTable& table, const RopeSizes& sizes, int direction) {
  Tensor y = empty_like(x);
  rotate(x, table, sizes, direction, y);
  return y;
}

/// The sizes of all heads of x, with the angles of the documents' positions.
RopeSizes sizes_of(const Variable& x, const Tensor& document_starts) {
  return {x.dim(0), x.dim(1),     x.dim(2),
          x.dim(2), x.dim(3) / 2, document_starts.defined() ? document_starts.data<std::int32_t>() : nullptr};
}

/// The rotation by `table` of x with these sizes, whose pointers are to `numbers`.
Variable recorded(const Variable& x, const RopeTable& table, const RopeSizes& sizes, const Tensor& numbers) {
  return record(
      "rope", rotated(x.value(), table, sizes, 1), {x},
      [table, sizes, numbers](const Tensor& dy) -> Grads { return {rotated(dy, table, sizes, -1)}; });
}

void check_selected(const Variable& qkv, std::int64_t heads, const Tensor& selected) {
  constexpr auto kOp = "rope_packed";
  const Variable of(selected);
  Check(kOp).dtype("selected", of, DType::kUInt8).rank("selected", of, 3);
  Check(kOp)
      .shape("selected", of, {qkv.dim(0), qkv.dim(1), selected.dim(2)}, "batch and tokens of qkv")
      .in_range("selected heads", static_cast<double>(selected.dim(2)), 0, static_cast<double>(heads));
  if (selected.device() != qkv.device())
    throw DeviceError(error_message(kOp, "selected", device_name(qkv.device()) + " as qkv",
                                    device_name(selected.device())));
}

void check_positions(const Variable& x, const RopeTable& table, const Tensor& positions) {
  constexpr auto kOp = "rope_at";
  Check(kOp)
      .dtype("positions", Variable(positions), DType::kInt32)
      .shape("positions", Variable(positions), {x.dim(0), x.dim(1)});
  if (positions.device() != x.device())
    throw DeviceError(
        error_message(kOp, "positions", device_name(x.device()) + " as x", device_name(positions.device())));
  const std::int64_t rows = table.cos.dim(0);
  Check(kOp).require(rows > 0 || positions.numel() == 0, "table", "a row or more", "none");
  if (positions.device() != kCpu || dry_run()) return;
  for (const std::int32_t position : positions.span<std::int32_t>()) {
    if (position < 0 || position >= rows)
      throw ValueError(error_message(kOp, "positions",
                                     "0 to " + std::to_string(rows - 1) + ", rows of the table",
                                     std::to_string(position)));
  }
}

}  // namespace

RopeTable RopeTable::rows(std::int64_t first, std::int64_t count) const {
  if (first < 0) throw ValueError(error_message("rope", "first row", "0 or more", std::to_string(first)));
  if (count > cos.dim(0) || first > cos.dim(0) - count) {
    throw ValueError(error_message(
        "rope", "positions", "at most " + std::to_string(cos.dim(0)) + ", the rows of the table",
        std::to_string(count) + " tokens from position " + std::to_string(first) + " on",
        "build the table for more positions"));
  }
  return {cos.slice(first, first + count), sin.slice(first, first + count)};
}

RopeTable rope_table(std::int64_t num_positions, std::int64_t head_dim, double theta, DType dtype,
                     Device device, const RopeScaling& scaling, std::int64_t first_position) {
  Check("rope_table")
      .require(num_positions >= 0, "num_positions", "0 or more", std::to_string(num_positions))
      .require(first_position >= 0, "first_position", "0 or more", std::to_string(first_position));
  const Angles angles{first_position,
                      rope_frequencies(head_dim, theta, scaling, first_position + num_positions),
                      rope_attention_factor(scaling)};
  const Shape shape{num_positions, head_dim / 2};
  RopeTable table{empty(shape, dtype), empty(shape, dtype)};
  switch (dtype) {
    case DType::kFloat32:
      fill_table<float>(table, angles);
      break;
    case DType::kFloat64:
      fill_table<double>(table, angles);
      break;
    default:
      throw DTypeError(error_message("rope_table", "dtype", "float32 or float64", dtype_name(dtype)));
  }
  return {table.cos.to(device), table.sin.to(device)};
}

void check_rope_operands(std::string_view op, const Variable& x, const RopeTable& table,
                         const Tensor& document_starts) {
  Check(op).floating("x", x).rank("x", x, 4);
  Check(op).require(x.dim(3) % 2 == 0, "x", "an even last axis", to_string(x.shape()));
  for (const auto& [name, part] : {std::pair{"table.cos", &table.cos}, {"table.sin", &table.sin}}) {
    if (!part->defined()) throw ValueError(error_message(op, name, "a tensor", "none"));
    if (part->dtype() != accumulate_dtype(x.dtype())) {
      throw DTypeError(error_message(op, name, dtype_name(accumulate_dtype(x.dtype())),
                                     dtype_name(part->dtype()), "pass this dtype to rope_table"));
    }
    if (part->device() != x.device()) {
      throw DeviceError(
          error_message(op, name, device_name(x.device()) + " as x", device_name(part->device())));
    }
    if (part->rank() != 2 || part->dim(1) != x.dim(3) / 2 || part->dim(0) != table.cos.dim(0)) {
      throw ShapeError(error_message(op, name, "[positions, " + std::to_string(x.dim(3) / 2) + "]",
                                     to_string(part->shape())));
    }
  }
  if (!document_starts.defined()) return;
  Check(op)
      .dtype("document_starts", Variable(document_starts), DType::kInt32)
      .shape("document_starts", Variable(document_starts), {x.dim(0), x.dim(1)});
  if (document_starts.device() != x.device()) {
    throw DeviceError(error_message(op, "document_starts", device_name(x.device()) + " as x",
                                    device_name(document_starts.device())));
  }
}

Variable rope(const Variable& x, const RopeTable& table, const Tensor& document_starts) {
  check_rope_operands("rope", x, table, document_starts);
  return recorded(x, table.rows(0, x.dim(1)), sizes_of(x, document_starts), document_starts);
}

Variable rope_packed(const Variable& qkv, std::int64_t heads, const RopeTable& table,
                     const Tensor& document_starts, const Tensor& selected) {
  check_rope_operands("rope_packed", qkv, table, document_starts);
  Check("rope_packed").in_range("heads", static_cast<double>(heads), 0, static_cast<double>(qkv.dim(2)));
  MOH_CHECK(!qkv.is_leaf() || !qkv.requires_grad(), "a leaf's own value stays as it is");
  RopeSizes sizes = sizes_of(qkv, document_starts);
  sizes.heads = heads;
  if (selected.defined()) {
    check_selected(qkv, heads, selected);
    sizes.selected = selected.data<std::uint8_t>();
    sizes.selectable = selected.dim(2);
  }
  const Tensor& y = qkv.value();
  const RopeTable rows = table.rows(0, qkv.dim(1));
  rotate(y, rows, sizes, 1, y);
  return record("rope_packed", y, {qkv}, [rows, sizes, document_starts, selected](const Tensor& dy) -> Grads {
    const Tensor dx = dy.is_unique() ? dy : dy.clone();
    rotate(dx, rows, sizes, -1, dx);
    return {dx};
  });
}

Variable rope_at(const Variable& x, const RopeTable& table, const Tensor& positions) {
  check_rope_operands("rope_at", x, table, {});
  check_positions(x, table, positions);
  RopeSizes sizes = sizes_of(x, {});
  sizes.rows = positions.data<std::int32_t>();
  sizes.table_rows = table.cos.dim(0);
  return recorded(x, table, sizes, positions);
}

}  // namespace moh
