#include <catch2/catch.hpp>
#include <optional>

#include "tests/ops/device_checks.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"
#include "tests/support/skip.h"

// The cases of an op on a GPU, real or simulated, instead of on the CPU.

namespace moh::test {

void check_on_device(const OpCase& op_case, DType dtype, double unit) {
  const std::vector<Tensor> inputs = converted(op_case.inputs, dtype);
  const DType exact = op_case.low_precision ? DType::kFloat64 : dtype;
  const Result expected = run(op_case, converted(inputs, exact));
  const Device gpu = open_gpu();
  std::optional<Result> first;
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Result found = run(op_case, inputs, gpu);
    if (!first) {
      check_result(found, expected, op_case, unit, std::string(dtype_name(dtype)));
      first = found;
    }
    CHECK(same_bits(*first, found));
  });
}

void check_op_case(const OpCase& op_case) {
  INFO("case " << op_case.name);
  if (!op_case.absent_on_gpu.empty()) return leave_out(op_case.name, op_case.absent_on_gpu);
  check_on_device(op_case, DType::kFloat32, 0x1p-24);
  if (op_case.low_precision) check_on_device(op_case, DType::kBFloat16, 0x1p-9);
}

}  // namespace moh::test
