#include "train/bench/op_cases/parts.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/random.h"

namespace moh::op_cases {

std::int64_t count_for(DType dtype, std::int64_t bytes, std::int64_t elements) {
  return std::max<std::int64_t>(bytes / (elements * static_cast<std::int64_t>(dtype_size(dtype))), 1);
}

Shape rows_for(DType dtype, std::int64_t bytes, std::int64_t width) {
  return {count_for(dtype, bytes, width), width};
}

Tensor random_tensor(const Shape& shape, Placement placement, std::uint64_t stream) {
  Tensor tensor = empty(shape, placement.dtype, placement.device);
  fill_uniform(tensor, {1, stream}, -1.0, 1.0);
  return tensor;
}

Variable input(const Tensor& value) {
  const Variable leaf(zeros({}, DType::kFloat32, value.device()), true);
  return record("bench_input", value, {leaf}, [](const Tensor&) { return Grads(1); });
}

double bytes_of(const Tensor& tensor) {
  return static_cast<double>(tensor.bytes());
}

StreamingFamily family(std::string_view op, StreamingCase (*make)(Placement placement, std::int64_t bytes)) {
  return {op, [=](Placement placement, std::int64_t bytes) {
            StreamingCase made = make(placement, bytes);
            made.op = op;
            return made;
          }};
}

StreamingFamily unary(std::string_view op, std::int64_t width, double backward_tensors,
                      std::function<Variable(const Variable&)> run) {
  return {op, [=](Placement placement, std::int64_t bytes) {
            const Tensor x = random_tensor(rows_for(placement.dtype, bytes, width), placement, 1);
            const double one = bytes_of(x);
            return StreamingCase{.op = std::string(op),
                                 .shape = to_string(x.shape()),
                                 .forward_bytes = 2 * one,
                                 .backward_bytes = backward_tensors * one,
                                 .forward = [=] { return std::vector{run(input(x))}; },
                                 .seeds = {random_tensor(x.shape(), placement, 2)}};
          }};
}

}  // namespace moh::op_cases
