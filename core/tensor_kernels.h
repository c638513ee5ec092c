#pragma once

#include <cstdint>

namespace moh {

/// Loops of Tensor over `count` elements on the CPU, between floating types, compiled once per instruction
/// set (core/cpu_isa.h). An element's bits are the same under each.
template <class Backend, class From, class To>
struct TensorKernels {
  /// to = from, converted.
  static void convert(const From* from, To* to, std::int64_t count);
  /// to += from, in the accumulation type of To.
  static void add(const From* from, To* to, std::int64_t count);
};

}  // namespace moh
