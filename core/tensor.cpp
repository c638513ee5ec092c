#include "core/tensor.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/cuda/backend.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/remaking.h"
#include "core/tensor_kernels.h"
#include "core/visit_cpu_isa.h"

namespace moh {

namespace {

constexpr std::int64_t kGrain = 1 << 15;

thread_local int remakes = 0;  // that run, one within the other

/// A tensor is made again in this thread, as long as the object lives.
struct Remake {
  Remake() { ++remakes; }
  ~Remake() { --remakes; }
  Remake(const Remake&) = delete;
  Remake& operator=(const Remake&) = delete;
};

std::int64_t row_elements(const Shape& shape) {
  if (shape.numel() == 0) return 0;  // the product of the other extents may overflow
  std::int64_t count = 1;
  for (int axis = 1; axis < shape.rank(); ++axis) count *= shape[axis];
  return count;
}

Shape without_leading(const Shape& shape) {
  return Shape(shape.extents().subspan(1));
}

void require_same_shape(const char* where, const Tensor& to, const Tensor& from) {
  if (to.shape() == from.shape()) return;
  throw ShapeError(error_message(where, "source", to_string(to.shape()), to_string(from.shape())));
}

void require_rank(const char* where, const Tensor& tensor) {
  if (tensor.rank() > 0) return;
  throw ShapeError(error_message(where, "rank", "1 or more", "a scalar"));
}

template <class From, class To>
To convert(From value) {
  // To bfloat16 by way of float, its only conversion.
  if constexpr (std::is_same_v<To, bfloat16>)
    return bfloat16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class T>
constexpr bool kIsFloating =
    std::is_same_v<T, float> || std::is_same_v<T, bfloat16> || std::is_same_v<T, double>;

/// Calls fn.template operator()<Kernels>(begin, end) with TensorKernels<..., From, To> for all of [0, count).
template <class From, class To, class Fn>
void for_elements(std::int64_t count, const Fn& fn) {
  visit_cpu_isa([&]<class Backend>() {
    parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
      fn.template operator()<TensorKernels<Backend, From, To>>(begin, end);
    });
  });
}

template <class From, class To>
void convert_on_cpu(const From* from, To* to, std::int64_t count) {
  if constexpr (std::is_same_v<From, To>) {
    parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
      std::memmove(to + begin, from + begin, static_cast<std::size_t>(end - begin) * sizeof(To));
    });
  } else if constexpr (kIsFloating<From> && kIsFloating<To>) {
    for_elements<From, To>(count, [=]<class Kernels>(std::int64_t begin, std::int64_t end) {
      Kernels::convert(from + begin, to + begin, end - begin);
    });
  } else {
    parallel_for(count, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = convert<From, To>(from[i]);
    });
  }
}

void copy_on_cpu(const Tensor& to_tensor, const Tensor& from_tensor) {
  visit_dtype(to_tensor.dtype(), [&]<class To>() {
    visit_dtype(from_tensor.dtype(), [&]<class From>() {
      convert_on_cpu(from_tensor.data<From>(), to_tensor.data<To>(), to_tensor.numel());
    });
  });
}

void require_same_device(const char* where, const Tensor& to, const Tensor& from) {
  if (to.device() == from.device()) return;
  throw DeviceError(error_message(where, "device", device_name(to.device()), device_name(from.device())));
}

}  // namespace

Tensor::Tensor(std::shared_ptr<Storage> storage, std::size_t offset_bytes, const Shape& shape, DType dtype)
    : storage_(std::move(storage)),
      offset_(offset_bytes),
      shape_(shape),
      numel_(shape.numel()),
      dtype_(dtype) {
  MOH_CHECK(storage_ != nullptr, "a tensor needs storage");
  std::size_t wanted = 0;
  const bool overflow = __builtin_mul_overflow(static_cast<std::size_t>(numel_), dtype_size(dtype), &wanted);
  if (overflow || offset_ > storage_->bytes() || wanted > storage_->bytes() - offset_) {
    throw ShapeError(error_message("tensor", to_string(shape),
                                   "a shape within " + std::to_string(storage_->bytes()) + " bytes",
                                   "more, from byte " + std::to_string(offset_)));
  }
  const auto address = reinterpret_cast<std::uintptr_t>(storage_->block()) + offset_;
  MOH_CHECK(address % dtype_size(dtype) == 0, "a tensor's first element must be aligned to its size");
}

void Tensor::require_dtype(DType dtype) const {
  MOH_CHECK(defined(), "the tensor is undefined");
  if (dtype == dtype_) return;
  throw DTypeError(
      error_message("tensor " + to_string(shape_), "dtype", dtype_name(dtype), dtype_name(dtype_)));
}

double Tensor::item() const {
  if (numel_ != 1) throw ShapeError(error_message("item", "elements", "1", to_string(shape_)));
  if (dry_run()) return 0;
  if (device() != kCpu) return to(kCpu).item();
  return visit_dtype(dtype_, [&]<class T>() { return static_cast<double>(*data<T>()); });
}

Tensor Tensor::reshape(const Shape& shape) const {
  if (shape.numel() != numel_) {
    throw ShapeError(error_message("reshape", to_string(shape),
                                   std::to_string(numel_) + " elements, as in " + to_string(shape_),
                                   std::to_string(shape.numel())));
  }
  return Tensor(storage_, offset_, shape, dtype_);
}

Tensor Tensor::slice(std::int64_t begin, std::int64_t end) const {
  require_rank("slice", *this);
  if (begin < 0 || end < begin || end > dim(0)) {
    throw ShapeError(error_message("slice", "rows", "a range within [0, " + std::to_string(dim(0)) + ")",
                                   "[" + std::to_string(begin) + ", " + std::to_string(end) + ")"));
  }
  std::vector<std::int64_t> extents(shape_.extents().begin(), shape_.extents().end());
  extents[0] = end - begin;
  const auto row_bytes = static_cast<std::size_t>(row_elements(shape_)) * dtype_size(dtype_);
  return Tensor(storage_, offset_ + static_cast<std::size_t>(begin) * row_bytes,
                Shape(std::span<const std::int64_t>(extents)), dtype_);
}

Tensor Tensor::select(std::int64_t index) const {
  require_rank("select", *this);
  return slice(index, index + 1).reshape(without_leading(shape_));
}

bool Tensor::is_same(const Tensor& other) const {
  return storage_ == other.storage_ && offset_ == other.offset_ && shape_ == other.shape_ &&
         dtype_ == other.dtype_;
}

bool Tensor::is_followed_by(const Tensor& next) const {
  return storage_ == next.storage_ && dtype_ == next.dtype_ && offset_ + bytes() == next.offset_;
}

bool remaking() {
  return remakes > 0;
}

void Tensor::release_until_read(std::function<Tensor()> remake) const {
  MOH_CHECK(offset_ == 0 && bytes() == storage_->bytes(), "a part of a block is not released alone");
  storage_->release_until_read([remake = std::move(remake), shape = shape_, dtype = dtype_] {
    const Remake running;
    const Tensor made = remake();
    MOH_CHECK(made.shape_ == shape && made.dtype_ == dtype && made.offset_ == 0,
              "what is remade has the same shape and dtype");
    return made.storage_;
  });
}

Tensor Tensor::clone() const {
  Tensor copy = empty_like(*this);
  copy.copy_from(*this);
  return copy;
}

Tensor Tensor::to(DType dtype) const {
  if (dtype == dtype_) return *this;
  Tensor converted = empty(shape_, dtype, device());
  converted.copy_from(*this);
  return converted;
}

Tensor Tensor::to(Device device) const {
  if (device == this->device()) return *this;
  Tensor copy = empty(shape_, dtype_, device);
  copy.copy_from(*this);
  return copy;
}

void Tensor::copy_from(const Tensor& source) const {
  require_same_shape("copy_from", *this, source);
  if (dry_run()) return;
  const bool here = device() == kCpu, there = source.device() == kCpu;
  if (here && there) return copy_on_cpu(*this, source);
  if (!here && !there) {
    if (dtype_ == source.dtype()) return cuda::copy_on_device(raw(), source.raw(), bytes());
    return cuda::convert(raw(), dtype_, source.raw(), source.dtype(), numel_);
  }
  // Converted on the source's device: copies between devices keep the dtype.
  const Tensor converted = source.to(dtype_);
  if (here) {
    cuda::copy_to_host(raw(), converted.raw(), bytes());
  } else {
    cuda::copy_to_device(raw(), converted.raw(), bytes());
  }
}

void Tensor::fill(double value) const {
  if (dry_run()) return;
  if (device() != kCpu) return cuda::fill(raw(), dtype_, numel_, value);
  visit_dtype(dtype_, [&]<class T>() {
    T* to = data<T>();
    const T element = convert<double, T>(value);
    parallel_for(numel_, kGrain,
                 [=](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, element); });
  });
}

void Tensor::add(const Tensor& other) const {
  require_same_shape("add", *this, other);
  require_same_device("add", *this, other);
  if (dry_run()) return;
  if (device() != kCpu) return cuda::add(raw(), dtype_, other.raw(), other.dtype(), numel_);
  visit_floating(dtype_, "add", [&]<class To>() {
    visit_floating(other.dtype(), "add", [&]<class From>() {
      To* to = data<To>();
      const From* from = other.data<From>();
      for_elements<From, To>(numel_, [=]<class Kernels>(std::int64_t begin, std::int64_t end) {
        Kernels::add(from + begin, to + begin, end - begin);
      });
    });
  });
}

void Tensor::scale(double factor) const {
  if (dry_run()) return;
  if (device() != kCpu) return cuda::scale(raw(), dtype_, numel_, factor);
  visit_floating(dtype_, "scale", [&]<class T>() {
    T* to = data<T>();
    const Acc<T> f = static_cast<Acc<T>>(factor);
    parallel_for(numel_, kGrain, [=](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) to[i] = convert<Acc<T>, T>(static_cast<Acc<T>>(to[i]) * f);
    });
  });
}

bool Tensor::all_finite() const {
  if (dry_run()) return true;
  if (device() != kCpu) return cuda::all_finite(raw(), dtype_, numel_);
  return visit_floating(dtype_, "all_finite", [&]<class T>() {
    const T* from = data<T>();
    std::atomic<bool> finite = true;
    parallel_for(numel_, kGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        if (!std::isfinite(static_cast<Acc<T>>(from[i]))) {
          finite = false;
          return;
        }
      }
    });
    return finite.load();
  });
}

Tensor empty(const Shape& shape, DType dtype, Device device) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<std::size_t>(shape.numel()), dtype_size(dtype), &bytes)) {
    throw MemoryError(error_message("tensor", to_string(shape), "a size within 64 bits", "more"));
  }
  return Tensor(Storage::allocate(bytes, device, current_memory_purpose()), 0, shape, dtype);
}

Tensor empty_like(const Tensor& other) {
  return empty(other.shape(), other.dtype(), other.device());
}

Tensor zeros(const Shape& shape, DType dtype, Device device) {
  return full(shape, 0.0, dtype, device);
}

Tensor zeros_like(const Tensor& other) {
  return zeros(other.shape(), other.dtype(), other.device());
}

Tensor full(const Shape& shape, double value, DType dtype, Device device) {
  Tensor tensor = empty(shape, dtype, device);
  tensor.fill(value);
  return tensor;
}

template <class T>
Tensor tensor_of(const Shape& shape, std::span<const T> values) {
  if (static_cast<std::int64_t>(values.size()) != shape.numel()) {
    throw ShapeError(error_message("tensor_of " + to_string(shape), "values", std::to_string(shape.numel()),
                                   std::to_string(values.size())));
  }
  Tensor tensor = empty(shape, dtype_of<T>());
  std::copy(values.begin(), values.end(), tensor.data<T>());
  return tensor;
}
template Tensor tensor_of(const Shape&, std::span<const float>);
template Tensor tensor_of(const Shape&, std::span<const bfloat16>);
template Tensor tensor_of(const Shape&, std::span<const double>);
template Tensor tensor_of(const Shape&, std::span<const std::int32_t>);
template Tensor tensor_of(const Shape&, std::span<const std::int64_t>);
template Tensor tensor_of(const Shape&, std::span<const std::uint8_t>);

Tensor joined_rows(std::span<const Tensor> parts) {
  if (parts.empty()) return {};
  std::int64_t rows = parts.front().dim(0);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const bool fits = without_leading(parts[i].shape()) == without_leading(parts.front().shape());
    if (!fits || !parts[i - 1].is_followed_by(parts[i])) return {};
    rows += parts[i].dim(0);
  }
  const Tensor& first = parts.front();
  std::vector<std::int64_t> extents(first.shape().extents().begin(), first.shape().extents().end());
  extents[0] = rows;
  return Tensor(first.storage_, first.offset_, Shape(std::span<const std::int64_t>(extents)), first.dtype_);
}

std::string describe(const Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  return to_string(tensor.shape()) + " " + std::string(dtype_name(tensor.dtype()));
}

}  // namespace moh
