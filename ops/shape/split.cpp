#include "ops/shape/split.h"

#include <numeric>
#include <string>

#include "ops/linalg/linear_parameters.h"
#include "ops/op.h"
#include "ops/shape/split_kernels.h"

namespace moh {

namespace {

/// Parts of rows, of which `tensors` are some or all.
template <class T>
RowParts<T> row_parts(Rows rows, const std::vector<std::int64_t>& widths, std::span<const Tensor> tensors) {
  RowParts<T> parts{.rows = rows.count, .width = rows.width};
  std::int64_t begin = 0;
  for (const Tensor& tensor : tensors) {
    const auto part = static_cast<std::size_t>(parts.count++);
    if (tensor.defined()) parts.data[part] = tensor.data<std::remove_const_t<T>>();
    parts.begin[part] = begin;
    begin += widths[part];
  }
  return parts;
}

}  // namespace

std::vector<Variable> split(const Variable& x, const std::vector<std::int64_t>& widths) {
  constexpr auto kOp = "split";
  const std::int64_t sum = std::reduce(widths.begin(), widths.end());
  Check(kOp).floating("x", x).min_rank("x", x, 1).in_range("widths", static_cast<double>(widths.size()), 1,
                                                           RowParts<float>::kMost);
  if (sum != x.dim(-1)) {
    throw ShapeError(error_message(kOp, "widths", std::to_string(x.dim(-1)) + " in all, the last axis of x",
                                   std::to_string(sum)));
  }
  if (widths.size() == 1) return {x};
  const Rows rows = rows_of(x);
  std::vector<Tensor> parts;
  for (const std::int64_t width : widths)
    parts.push_back(empty(with_last(x.shape(), width), x.dtype(), x.device()));
  run_kernel(kOp, x.value(), [&]<class Backend, class T>() {
    SplitKernels<Backend, T>::forward(x.value().data<T>(), row_parts<T>(rows, widths, parts));
  });
  return record_outputs(
      "split", parts, {x}, [rows, widths, like = x.value()](std::span<const Tensor> dys) -> Grads {
        const Tensor dx = empty_like(like);
        run_kernel(kOp, dx, [&]<class Backend, class T>() {
          SplitKernels<Backend, T>::backward(row_parts<const T>(rows, widths, dys), dx.data<T>());
        });
        return {dx};
      });
}

Variable join(const std::vector<Variable>& parts) {
  constexpr auto kOp = "join";
  Check check(kOp);
  check.in_range("parts", static_cast<double>(parts.size()), 1, RowParts<float>::kMost);
  const Variable& first = parts.front();
  check.floating("part 0", first).min_rank("part 0", first, 1);
  std::vector<Tensor> tensors;
  std::vector<std::int64_t> widths;
  for (const Variable& part : parts) {
    const std::string name = "part " + std::to_string(tensors.size());
    check.like(name, part, "part 0", first);
    check.min_rank(name, part, 1);
    check.shape(name, part, with_last(first.shape(), part.dim(-1)), "but for the last axis as part 0");
    tensors.push_back(part.value());
    widths.push_back(part.dim(-1));
  }
  if (parts.size() == 1) return first;
  const std::int64_t width = std::reduce(widths.begin(), widths.end());
  const Tensor y = empty(with_last(first.shape(), width), first.dtype(), first.device());
  const Rows rows = {rows_of(first).count, width};
  run_kernel(kOp, y, [&]<class Backend, class T>() {
    SplitKernels<Backend, T>::backward(row_parts<const T>(rows, widths, tensors), y.data<T>());
  });
  return record("join", y, parts, [rows, widths, tensors](const Tensor& dy) -> Grads {
    Grads grads;
    for (const Tensor& part : tensors) grads.push_back(empty_like(part));
    run_kernel(kOp, dy, [&]<class Backend, class T>() {
      SplitKernels<Backend, T>::forward(dy.data<T>(), row_parts<T>(rows, widths, grads));
    });
    return grads;
  });
}

}  // namespace moh
