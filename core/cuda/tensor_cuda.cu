#include "core/cuda/backend.h"
#include "core/cuda/launch.h"
#include "core/error.h"

namespace moh::cuda {

namespace {

template <class To, class From>
MOH_DEVICE To convert_element(From value) {
  if constexpr (std::is_same_v<To, bfloat16>)
    return bfloat16(static_cast<float>(value));
  else
    return static_cast<To>(value);
}

template <class T>
struct Fill {
  T* to;
  T value;
  MOH_DEVICE void operator()(std::int64_t i) const { to[i] = value; }
};

template <class To, class From>
struct Convert {
  To* to;
  const From* from;
  MOH_DEVICE void operator()(std::int64_t i) const { to[i] = convert_element<To, From>(from[i]); }
};

template <class To, class From>
struct Add {
  To* to;
  const From* from;
  MOH_DEVICE void operator()(std::int64_t i) const {
    using Sum = std::conditional_t<std::is_same_v<To, double>, double, float>;
    to[i] = convert_element<To, Sum>(static_cast<Sum>(to[i]) + static_cast<Sum>(from[i]));
  }
};

template <class T>
struct Scale {
  T* to;
  Acc<T> factor;
  MOH_DEVICE void operator()(std::int64_t i) const {
    to[i] = convert_element<T, Acc<T>>(static_cast<Acc<T>>(to[i]) * factor);
  }
};

template <class T>
struct CopyToRow {
  T* rows;
  const std::int64_t* number;
  const T* row;
  std::int64_t width;
  MOH_DEVICE void operator()(std::int64_t i) const { rows[*number * width + i] = row[i]; }
};

template <class T>
struct FindNotFinite {
  const T* from;
  std::int32_t* found;
  MOH_DEVICE void operator()(std::int64_t i) const {
    const auto value = static_cast<Acc<T>>(from[i]);
    if (value - value != Acc<T>(0)) *found = 1;  // inf - inf is NaN
  }
};

}  // namespace

void fill(void* to, DType dtype, std::int64_t count, double value) {
  visit_dtype(dtype, [&]<class T>() {
    T element;
    if constexpr (std::is_same_v<T, bfloat16>)
      element = bfloat16(static_cast<float>(value));
    else
      element = static_cast<T>(value);
    launch_each("fill", count, Fill<T>{static_cast<T*>(to), element});
  });
}

void convert(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count) {
  visit_dtype(to_dtype, [&]<class To>() {
    visit_dtype(from_dtype, [&]<class From>() {
      launch_each("convert", count, Convert<To, From>{static_cast<To*>(to), static_cast<const From*>(from)});
    });
  });
}

void add(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count) {
  visit_floating(to_dtype, "add", [&]<class To>() {
    visit_floating(from_dtype, "add", [&]<class From>() {
      launch_each("add", count, Add<To, From>{static_cast<To*>(to), static_cast<const From*>(from)});
    });
  });
}

void scale(void* to, DType dtype, std::int64_t count, double factor) {
  visit_floating(dtype, "scale", [&]<class T>() {
    launch_each("scale", count, Scale<T>{static_cast<T*>(to), static_cast<Acc<T>>(factor)});
  });
}

void copy_to_row(void* rows, const std::int64_t* number, const void* row, DType dtype, std::int64_t width) {
  visit_dtype(dtype, [&]<class T>() {
    launch_each("copy_to_row", width,
                CopyToRow<T>{static_cast<T*>(rows), number, static_cast<const T*>(row), width});
  });
}

bool all_finite(const void* from, DType dtype, std::int64_t count) {
  auto* found = static_cast<std::int32_t*>(allocate(sizeof(std::int32_t), MemoryPurpose::kWorkspace));
  set_zero(found, sizeof *found);
  visit_floating(dtype, "all_finite", [&]<class T>() {
    launch_each("all_finite", count, FindNotFinite<T>{static_cast<const T*>(from), found});
  });
  std::int32_t result = 0;
  copy_to_host(&result, found, sizeof result);
  release(found, sizeof *found, MemoryPurpose::kWorkspace);
  return result == 0;
}

}  // namespace moh::cuda
