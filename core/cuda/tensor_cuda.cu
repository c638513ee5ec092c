#include <algorithm>

#include "core/cuda/backend.h"
#include "core/cuda/launch.h"
#include "core/cuda/run.h"
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
  T value;
  MOH_DEVICE T operator()(T /*old*/, T /*from*/) const { return value; }
};

struct Convert {
  template <class To, class From>
  MOH_DEVICE To operator()(To /*old*/, From from) const {
    return convert_element<To, From>(from);
  }
};

struct Add {
  template <class To, class From>
  MOH_DEVICE To operator()(To old, From from) const {
    using Sum = std::conditional_t<std::is_same_v<To, double>, double, float>;
    return convert_element<To, Sum>(static_cast<Sum>(old) + static_cast<Sum>(from));
  }
};

template <class A>
struct Scale {
  A factor;
  template <class T>
  MOH_DEVICE T operator()(T old, T /*from*/) const {
    return convert_element<T, A>(static_cast<A>(old) * factor);
  }
};

/// to[i] = f(to[i], from[i]) in runs of elements, the last of which may be shorter. f may leave out either.
template <class To, class From, class F>
struct Map {
  static constexpr int kCount = kRunOf<To, From>;

  To* to;
  const From* from;
  std::int64_t count;
  bool fits;
  F f;

  MOH_DEVICE void operator()(std::int64_t number) const {
    const std::int64_t first = number * kCount;
    if (!fits || first + kCount > count) {
      for (std::int64_t i = first; i < count && i < first + kCount; ++i) to[i] = f(to[i], from[i]);
      return;
    }
    Run<To, kCount> out = load_run<kCount>(to + first);
    const Run<From, kCount> in = load_run<kCount>(from + first);
    for (int j = 0; j < kCount; ++j) out.values[j] = f(out.values[j], in.values[j]);
    store_run(to + first, out);
  }
};

template <class To, class From, class F>
void launch_map(const char* name, To* to, const From* from, std::int64_t count, const F& f) {
  constexpr int kCount = kRunOf<To, From>;
  launch_each(name, (count + kCount - 1) / kCount, Map<To, From, F>{to, from, count, runs_fit(to, from), f});
}

/// An element of a row from some of its parts, few enough for the arguments of a kernel.
struct CopyToRow {
  static constexpr int kMost = 96;

  const void* from[kMost];
  DType dtype[kMost];
  std::int64_t end[kMost];
  double* rows;
  const std::int64_t* number;
  std::int64_t width, first;  ///< `first`: the place of the first part in the row

  template <class T>
  MOH_DEVICE double element(int part, std::int64_t i) const {
    return static_cast<double>(static_cast<const T*>(from[part])[i]);
  }
  MOH_DEVICE double value(int part, std::int64_t i) const {
    switch (dtype[part]) {
      case DType::kFloat32:
        return element<float>(part, i);
      case DType::kBFloat16:
        return static_cast<double>(static_cast<float>(static_cast<const bfloat16*>(from[part])[i]));
      case DType::kFloat64:
        return element<double>(part, i);
      case DType::kInt32:
        return element<std::int32_t>(part, i);
      case DType::kInt64:
        return element<std::int64_t>(part, i);
      case DType::kUInt8:
        return element<std::uint8_t>(part, i);
    }
    return 0;
  }
  MOH_DEVICE void operator()(std::int64_t i) const {
    int part = 0;
    while (i >= end[part]) ++part;
    rows[*number * width + first + i] = value(part, part > 0 ? i - end[part - 1] : i);
  }
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
    launch_map("fill", static_cast<T*>(to), static_cast<const T*>(to), count, Fill<T>{element});
  });
}

void convert(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count) {
  visit_dtype(to_dtype, [&]<class To>() {
    visit_dtype(from_dtype, [&]<class From>() {
      launch_map("convert", static_cast<To*>(to), static_cast<const From*>(from), count, Convert{});
    });
  });
}

void add(void* to, DType to_dtype, const void* from, DType from_dtype, std::int64_t count) {
  visit_floating(to_dtype, "add", [&]<class To>() {
    visit_floating(from_dtype, "add", [&]<class From>() {
      launch_map("add", static_cast<To*>(to), static_cast<const From*>(from), count, Add{});
    });
  });
}

void scale(void* to, DType dtype, std::int64_t count, double factor) {
  visit_floating(dtype, "scale", [&]<class T>() {
    launch_map("scale", static_cast<T*>(to), static_cast<const T*>(to), count,
               Scale<Acc<T>>{static_cast<Acc<T>>(factor)});
  });
}

void copy_to_row(double* rows, const std::int64_t* number, std::int64_t width,
                 std::span<const RowPart> parts) {
  std::int64_t first = 0;
  while (!parts.empty()) {
    CopyToRow copy{
        .from = {}, .dtype = {}, .end = {}, .rows = rows, .number = number, .width = width, .first = first};
    const std::size_t some = std::min<std::size_t>(parts.size(), CopyToRow::kMost);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < some; ++i) {
      copy.from[i] = parts[i].from;
      copy.dtype[i] = parts[i].dtype;
      copy.end[i] = count += parts[i].count;
    }
    launch_each("copy_to_row", count, copy);
    first += count;
    parts = parts.subspan(some);
  }
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
