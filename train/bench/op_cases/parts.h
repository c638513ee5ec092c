#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "train/bench/op_cases.h"

// What the cases are made of.

namespace moh::op_cases {

inline constexpr std::int64_t kWidth = 1024;  // of a row: that of a model's hidden state
inline constexpr std::int64_t kHeads = 16, kHeadDim = 64;

/// How many items of so many elements fill about `bytes`, at least one.
std::int64_t count_for(DType dtype, std::int64_t bytes, std::int64_t elements);
/// Rows of `width` elements that fill about `bytes`.
Shape rows_for(DType dtype, std::int64_t bytes, std::int64_t width);

/// Uniform in [-1, 1); another stream gives other numbers.
Tensor random_tensor(const Shape& shape, Placement placement, std::uint64_t stream);

/// An input that is differentiated as the output of an op would be. Its gradient is dropped: keeping it, as a
/// leaf does, may convert it, and that is no part of the op under test.
Variable input(const Tensor& value);

double bytes_of(const Tensor& tensor);

/// A family whose cases `make` gives all but the name.
StreamingFamily family(std::string_view op, StreamingCase (*make)(Placement placement, std::int64_t bytes));

/// An op of one large input [rows, width] and one large output: forward moves 2 tensors, backward
/// `backward_tensors`.
StreamingFamily unary(std::string_view op, std::int64_t width, double backward_tensors,
                      std::function<Variable(const Variable&)> run);

}  // namespace moh::op_cases
