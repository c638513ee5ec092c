#include "train/comm/reduce_rows.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "core/error.h"

namespace moh {

namespace {

/// The type of partial results.
template <class T>
using Partial = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

template <class T>
T larger(T a, T b) {
  return a >= b || a != a ? a : b;  // a NaN is not equal to itself
}

/// Block by block, so that partial results stay in L1.
template <class T>
void reduce(const std::vector<const std::byte*>& rows, std::byte* out, std::size_t count, ReduceOp op) {
  constexpr std::size_t kBlock = 1024;
  std::array<Partial<T>, kBlock> partial;
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    const std::size_t size = std::min(kBlock, count - begin);
    const auto row = [&](std::size_t r) { return reinterpret_cast<const T*>(rows[r]) + begin; };
    const T* first = row(0);
    for (std::size_t i = 0; i < size; ++i) partial[i] = static_cast<Partial<T>>(first[i]);
    for (std::size_t r = 1; r < rows.size(); ++r) {
      const T* next = row(r);
      if (op == ReduceOp::kSum) {
        for (std::size_t i = 0; i < size; ++i) partial[i] += static_cast<Partial<T>>(next[i]);
      } else {
        for (std::size_t i = 0; i < size; ++i)
          partial[i] = larger(partial[i], static_cast<Partial<T>>(next[i]));
      }
    }
    T* to = reinterpret_cast<T*>(out) + begin;
    for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<T>(partial[i]);
  }
}

}  // namespace

void reduce_rows(const std::vector<const std::byte*>& rows, std::byte* out, std::size_t count, DType dtype,
                 ReduceOp op) {
  switch (dtype) {
    case DType::kFloat32:
      return reduce<float>(rows, out, count, op);
    case DType::kBFloat16:
      return reduce<bfloat16>(rows, out, count, op);
    case DType::kFloat64:
      return reduce<double>(rows, out, count, op);
    case DType::kInt64:
      return reduce<std::int64_t>(rows, out, count, op);
    default:
      throw DTypeError(error_message("comm", "reduce", "float32, bfloat16, float64 or int64",
                                     std::string(dtype_name(dtype))));
  }
}

void round_to_bfloat16(const float* from, bfloat16* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i];
}

void upcast(const bfloat16* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

}  // namespace moh
