#include "ops/op.h"

namespace moh {

Rows rows_of(const Variable& x) {
  const std::int64_t width = x.dim(-1);
  std::int64_t count = 1;
  for (int axis = 0; axis + 1 < x.shape().rank(); ++axis) count *= x.dim(axis);
  return {count, width};
}

namespace {

std::string number(double value) {
  std::string text = std::to_string(value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void require_defined(const std::string& op, std::string_view name, const Variable& v) {
  if (!v.defined()) throw ValueError(error_message(op, name, "a tensor", "none"));
}

}  // namespace

Check& Check::floating(std::string_view name, const Variable& v) {
  require_defined(op_, name, v);
  if (!is_floating(v.dtype())) {
    throw DTypeError(error_message(op_, name, "float32, bfloat16 or float64", dtype_name(v.dtype())));
  }
  return *this;
}

Check& Check::dtype(std::string_view name, const Variable& v, DType dtype) {
  require_defined(op_, name, v);
  if (v.dtype() != dtype)
    throw DTypeError(error_message(op_, name, dtype_name(dtype), dtype_name(v.dtype())));
  return *this;
}

Check& Check::shape(std::string_view name, const Variable& v, const Shape& shape, std::string_view why) {
  require_defined(op_, name, v);
  if (v.shape() == shape) return *this;
  std::string expected = "shape " + to_string(shape);
  if (!why.empty()) expected.append(" (").append(why).append(")");
  throw ShapeError(error_message(op_, name, expected, to_string(v.shape())));
}

Check& Check::rank(std::string_view name, const Variable& v, int rank) {
  require_defined(op_, name, v);
  if (v.shape().rank() == rank) return *this;
  throw ShapeError(error_message(op_, name, "rank " + std::to_string(rank), to_string(v.shape())));
}

Check& Check::min_rank(std::string_view name, const Variable& v, int rank) {
  require_defined(op_, name, v);
  if (v.shape().rank() >= rank) return *this;
  throw ShapeError(
      error_message(op_, name, "rank " + std::to_string(rank) + " or more", to_string(v.shape())));
}

Check& Check::like(std::string_view name, const Variable& v, std::string_view other_name,
                   const Variable& other) {
  require_defined(op_, name, v);
  const std::string as = " as " + std::string(other_name);
  if (v.dtype() != other.dtype()) {
    throw DTypeError(
        error_message(op_, name, std::string(dtype_name(other.dtype())) + as, dtype_name(v.dtype())));
  }
  if (v.device() != other.device()) {
    throw DeviceError(error_message(op_, name, device_name(other.device()) + as, device_name(v.device())));
  }
  return *this;
}

Check& Check::positive(std::string_view name, double value) {
  if (!(value > 0)) throw ValueError(error_message(op_, name, "a number above 0", number(value)));
  return *this;
}

Check& Check::in_range(std::string_view name, double value, double low, double high) {
  if (!(value >= low && value <= high)) {
    throw ValueError(error_message(op_, name, number(low) + " to " + number(high), number(value)));
  }
  return *this;
}

Check& Check::require(bool condition, std::string_view what, std::string_view expected,
                      std::string_view found) {
  if (!condition) throw ShapeError(error_message(op_, what, expected, found));
  return *this;
}

void require_cpu(std::string_view op, const Tensor& x) {
  if (x.device() != kCpu) throw DeviceError(error_message(op, "device", "cpu", device_name(x.device())));
}

}  // namespace moh
