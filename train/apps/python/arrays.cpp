#include "train/apps/python/arrays.h"

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"

namespace moh::python {

namespace nb = nanobind;

namespace {

using Array = nb::ndarray<nb::ro>;
using dtype_code = nb::dlpack::dtype_code;

constexpr const char* kIds = "int64 or int32 [T] or [B, T] in main memory, or a list of numbers";
constexpr const char* kPictures = "float32 [B, 3, H, W] in main memory, or names of files";

std::string kind_of(nb::handle object) {
  return Py_TYPE(object.ptr())->tp_name;
}

std::string name_of(nb::dlpack::dtype type) {
  const std::string bits = std::to_string(type.bits);
  switch (static_cast<dtype_code>(type.code)) {
    case dtype_code::Int:
      return "int" + bits;
    case dtype_code::UInt:
      return "uint" + bits;
    case dtype_code::Float:
      return "float" + bits;
    case dtype_code::Bfloat:
      return "bfloat" + bits;
    case dtype_code::Bool:
      return "bool";
    default:
      return "another type of " + bits + " bits";
  }
}

/// "float64 [2, 3, 8, 8]"
std::string describe(const Array& array) {
  std::string text = name_of(array.dtype()) + " [";
  for (std::size_t i = 0; i < array.ndim(); ++i) text += (i > 0 ? ", " : "") + std::to_string(array.shape(i));
  text += "]";
  return array.device_type() == nb::device::cpu::value ? text : text + " on another device";
}

bool has_type(const Array& array, dtype_code code, int bits) {
  const nb::dlpack::dtype type = array.dtype();
  return type.code == static_cast<std::uint8_t>(code) && type.bits == bits && type.lanes == 1;
}

[[noreturn]] void refuse(std::string_view where, const char* expected, const std::string& found,
                         const char* fix = "") {
  throw ValueError(error_message(where, "", expected, found, fix));
}

Array array_in(std::string_view where, nb::handle object, const char* expected) {
  Array array;
  if (nb::ndarray_check(object) && nb::try_cast(object, array, /*convert=*/false)) return array;
  refuse(where, expected, kind_of(object));
}

/// Whether the elements lie one behind the other, the axes in this order, the last one fastest.
bool lies_in_order(const Array& array, std::initializer_list<std::size_t> axes) {
  std::int64_t next = 1;
  for (auto axis = std::rbegin(axes); axis != std::rend(axes); ++axis) {
    if (array.shape(*axis) != 1 && array.stride(*axis) != next) return false;
    next *= static_cast<std::int64_t>(array.shape(*axis));
  }
  return true;
}

/// The memory of the array, which lives until the last tensor on it is gone, whichever thread has that.
Tensor borrowed(const Array& array, const Shape& shape, DType dtype) {
  const auto release = [](Array* held) {
    const nb::gil_scoped_acquire lock;
    delete held;
  };
  const void* const data = array.data();
  const std::shared_ptr<const void> owner(new Array(array), release);
  return {Storage::borrow(data, array.nbytes(), owner), 0, shape, dtype};
}

template <class T>
Tensor gathered_ids(const Array& array, const Shape& shape, DType dtype) {
  Tensor ids = empty(shape, dtype);
  const auto* const from = static_cast<const T*>(array.data());
  const std::int64_t row_stride = array.ndim() == 2 ? array.stride(0) : 0;
  const std::int64_t stride = array.stride(array.ndim() - 1);
  for (std::int64_t b = 0; b < shape[0]; ++b) {
    for (std::int64_t t = 0; t < shape[1]; ++t)
      ids.data<T>()[b * shape[1] + t] = from[b * row_stride + t * stride];
  }
  return ids;
}

Tensor ids_of_array(std::string_view where, nb::handle object) {
  const Array array = array_in(where, object, kIds);
  const bool is_int64 = has_type(array, dtype_code::Int, 64), is_int32 = has_type(array, dtype_code::Int, 32);
  const bool fits = array.ndim() == 1 || array.ndim() == 2;
  if (!(is_int64 || is_int32) || !fits || array.size() == 0 || array.device_type() != nb::device::cpu::value)
    refuse(where, kIds, describe(array));
  const auto length = static_cast<std::int64_t>(array.shape(array.ndim() - 1));
  const Shape shape{static_cast<std::int64_t>(array.size()) / length, length};
  const DType dtype = is_int64 ? DType::kInt64 : DType::kInt32;
  const bool in_order = array.ndim() == 1 ? lies_in_order(array, {0}) : lies_in_order(array, {0, 1});
  if (in_order) return borrowed(array, shape, dtype);
  return is_int64 ? gathered_ids<std::int64_t>(array, shape, dtype)
                  : gathered_ids<std::int32_t>(array, shape, dtype);
}

bool is_list(nb::handle object) {
  return PyList_Check(object.ptr()) != 0 || PyTuple_Check(object.ptr()) != 0;
}

/// Appends the numbers of a list.
void append_ids(std::string_view where, nb::handle list, std::vector<std::int64_t>& ids) {
  for (const nb::handle item : list) {
    const nb::object number = nb::steal(PyNumber_Index(item.ptr()));
    const std::int64_t id = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      refuse(where, kIds, "a list with " + kind_of(item));
    }
    ids.push_back(id);
  }
}

Tensor ids_of_list(std::string_view where, nb::handle list) {
  std::vector<std::int64_t> ids;
  const auto rows = static_cast<std::int64_t>(nb::len(list));
  if (rows == 0) refuse(where, kIds, "an empty list");
  if (!is_list(nb::object(list[0]))) {
    append_ids(where, list, ids);
    return tensor_of<std::int64_t>({1, rows}, ids);
  }
  const std::size_t length = nb::len(nb::object(list[0]));
  for (const nb::handle row : list) {
    if (!is_list(row) || nb::len(row) != length || length == 0)
      refuse(where, kIds, "lists of different lengths, or empty ones");
    append_ids(where, row, ids);
  }
  return tensor_of<std::int64_t>({rows, static_cast<std::int64_t>(length)}, ids);
}

/// Copies pixels of any layout to one behind the other, with their channels last.
Tensor channels_last(const Array& array, const Shape& shape) {
  Tensor pictures = empty(shape, DType::kFloat32);
  const auto* const from = static_cast<const float*>(array.data());
  const std::int64_t height = shape[1], width = shape[2], channels = shape[3];
  parallel_for(shape[0] * height, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const float* const line = from + row / height * array.stride(0) + row % height * array.stride(2);
      float* to = pictures.data<float>() + row * width * channels;
      for (std::int64_t x = 0; x < width; ++x) {
        for (std::int64_t c = 0; c < channels; ++c) *to++ = line[c * array.stride(1) + x * array.stride(3)];
      }
    }
  });
  return pictures;
}

/// An array of NumPy that is the memory of the tensor, whose elements are of `type`.
nb::object view_of(const Tensor& tensor, nb::dlpack::dtype type) {
  auto held = std::make_unique<Tensor>(tensor.to(kCpu));
  const Tensor& host = *held;
  std::vector<std::size_t> shape;
  for (const std::int64_t extent : host.shape().extents()) shape.push_back(static_cast<std::size_t>(extent));
  const nb::capsule owner(held.get(), [](void* pointer) noexcept { delete static_cast<Tensor*>(pointer); });
  void* const data = held.release()->raw();
  const nb::ndarray<nb::numpy> array(data, shape.size(), shape.data(), owner, nullptr, type);
  return nb::cast(array);
}

nb::dlpack::dtype type_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return nb::dtype<float>();
    case DType::kFloat64:
      return nb::dtype<double>();
    case DType::kInt64:
      return nb::dtype<std::int64_t>();
    case DType::kInt32:
      return nb::dtype<std::int32_t>();
    default:
      fail_check(__FILE__, __LINE__, "dtype", "an array of NumPy has no such elements");
  }
}

}  // namespace

Tensor ids_of(std::string_view where, nb::handle ids) {
  if (is_list(ids)) return ids_of_list(where, ids);
  if (PyUnicode_Check(ids.ptr()) != 0) refuse(where, kIds, "a text", "model.tokenize(text) makes ids of it");
  return ids_of_array(where, ids);
}

Tensor pictures_of(std::string_view where, nb::handle pictures) {
  const Array array = array_in(where, pictures, kPictures);
  constexpr std::size_t kColours = 3;
  if (!has_type(array, dtype_code::Float, 32) || array.ndim() != 4 || array.shape(1) != kColours ||
      array.size() == 0 || array.device_type() != nb::device::cpu::value)
    refuse(where, kPictures, describe(array));
  const auto extent = [&](std::size_t axis) { return static_cast<std::int64_t>(array.shape(axis)); };
  const Shape shape{extent(0), extent(2), extent(3), extent(1)};
  if (lies_in_order(array, {0, 2, 3, 1})) return borrowed(array, shape, DType::kFloat32);
  return channels_last(array, shape);
}

nb::object array_of(const Tensor& tensor) {
  return view_of(tensor, type_of(tensor.dtype()));
}

nb::object flags_of(const Tensor& tensor) {
  return view_of(tensor, nb::dtype<bool>());
}

}  // namespace moh::python
