#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/storage.h"

namespace moh {

/// A contiguous, row-major array of one element type. A handle: copies share storage, reshape and slices of
/// the leading dimension are views, and every other change of layout is an op. A default-constructed Tensor
/// is undefined: it has no storage, and only defined() may be called.
class Tensor {
 public:
  Tensor() = default;
  /// A view of `storage` from `offset_bytes` on. Throws ShapeError when it does not fit.
  Tensor(std::shared_ptr<Storage> storage, std::size_t offset_bytes, const Shape& shape, DType dtype);

  bool defined() const { return storage_ != nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int axis) const { return shape_[axis]; }
  std::int64_t numel() const { return numel_; }
  DType dtype() const { return dtype_; }
  Device device() const { return storage_->device(); }
  std::size_t bytes() const { return static_cast<std::size_t>(numel_) * dtype_size(dtype_); }

  /// The elements. Constness is that of the handle, as for a shared_ptr. Throws DTypeError when T is not
  /// dtype().
  template <class T>
  T* data() const {
    require_dtype(dtype_of<T>());
    return static_cast<T*>(raw());
  }
  void* raw() const { return storage_->data() + offset_; }
  /// The elements as a span; on the CPU only.
  template <class T>
  std::span<T> span() const {
    return {data<T>(), static_cast<std::size_t>(numel_)};
  }
  /// The value of a tensor with one element of any dtype, as double; synchronizes with a GPU. Throws
  /// ShapeError for any other number of elements.
  double item() const;

  /// A view of the elements under another shape. Throws ShapeError when the counts differ.
  Tensor reshape(const Shape& shape) const;
  /// Rows [begin, end) of the leading dimension, as a view. Throws ShapeError when out of range.
  Tensor slice(std::int64_t begin, std::int64_t end) const;
  /// Row `index` of the leading dimension, as a view of one rank less.
  Tensor select(std::int64_t index) const;

  /// A copy with storage of its own.
  Tensor clone() const;
  /// This tensor when it has `dtype` already, else a converted copy.
  Tensor to(DType dtype) const;
  /// This tensor when it lives on `device` already, else a copy there.
  Tensor to(Device device) const;
  /// Overwrites the elements with those of a tensor of the same shape on any device, converting the dtype.
  /// Synchronizes with the GPU when this tensor is on the CPU and `source` is not.
  void copy_from(const Tensor& source) const;
  /// Sets every element to `value`.
  void fill(double value) const;
  /// Adds `other`, of the same shape and any floating dtype, elementwise, in place.
  void add(const Tensor& other) const;
  /// Multiplies every element by `factor`, in place.
  void scale(double factor) const;
  /// Whether every element is finite; synchronizes with a GPU.
  bool all_finite() const;

  /// Frees the memory until an element is read the next time: then `remake`, which must return the same
  /// values in a new tensor of this shape and dtype, is called once. For all handles, views included. Only of
  /// a tensor that is the whole of its storage.
  void release_until_read(std::function<Tensor()> remake) const;

  /// Counts this tensor's storage under another purpose from now on.
  void set_purpose(MemoryPurpose purpose) const { storage_->set_purpose(purpose); }
  bool shares_storage_with(const Tensor& other) const { return storage_ == other.storage_; }
  /// Whether both are the same elements in memory, under one shape and dtype.
  bool is_same(const Tensor& other) const;
  /// Whether the first element of `next`, of the same dtype, lies right behind the last one of this tensor,
  /// in the same storage.
  bool is_followed_by(const Tensor& next) const;
  /// Whether this is the only handle to its storage, so that writes are visible through no other tensor.
  bool is_unique() const { return storage_.use_count() == 1 && !storage_->is_borrowed(); }

 private:
  friend Tensor joined_rows(std::span<const Tensor> parts);
  void require_dtype(DType dtype) const;

  std::shared_ptr<Storage> storage_;
  std::size_t offset_ = 0;
  Shape shape_;
  std::int64_t numel_ = 0;
  DType dtype_ = DType::kFloat32;
};

/// A new tensor, contents undefined, counted under the thread's current MemoryPurpose.
Tensor empty(const Shape& shape, DType dtype, Device device = kCpu);
Tensor empty_like(const Tensor& other);
Tensor zeros(const Shape& shape, DType dtype, Device device = kCpu);
Tensor zeros_like(const Tensor& other);
Tensor full(const Shape& shape, double value, DType dtype, Device device = kCpu);

/// A new CPU tensor with the given elements. Throws ShapeError when their number is not shape.numel().
template <class T>
Tensor tensor_of(const Shape& shape, std::span<const T> values);
template <class T>
Tensor tensor_of(const Shape& shape, std::initializer_list<T> values) {
  return tensor_of<T>(shape, std::span<const T>(values.begin(), values.size()));
}
template <class T>
Tensor tensor_of(const Shape& shape, const std::vector<T>& values) {
  return tensor_of<T>(shape, std::span<const T>(values));
}

/// The rows of `parts`, of a rank of 1 or more and shapes that differ in the leading extent alone, as one
/// tensor: a view, where each lies right behind the one before it; else undefined.
Tensor joined_rows(std::span<const Tensor> parts);

/// "[8, 256] float32", for messages.
std::string describe(const Tensor& tensor);

}  // namespace moh
