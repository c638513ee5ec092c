// Every op in a dry run: its results and gradients have the shapes and dtypes of the real ones.

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/dry_run.h"
#include "core/error.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/op_run.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr Device kGpu{Device::Type::kCuda, 0};

std::vector<std::string> described(const Result& result) {
  std::vector<std::string> tensors;
  for (std::size_t i = 0; i < result.tensors.size(); ++i) {
    tensors.push_back(result.names[i] + ": " + describe(result.tensors[i]));
  }
  return tensors;
}

std::vector<std::string> dry_results(const OpCase& op_case, DType dtype, Device device) {
  const DryRunScope scope;
  return described(run(op_case, converted(op_case.inputs, dtype), device));
}

/// Ops that have kernels on the CPU alone refuse a GPU here, too.
bool refuses_gpu(const OpCase& op_case, DType dtype) {
  try {
    dry_results(op_case, dtype, kGpu);
  } catch (const DeviceError& error) {
    return std::string(error.what()).find("device: expected cpu, found cuda:0") != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("ops: in a dry run each op has the results and gradients that it has otherwise, on any device") {
  int cases_on_gpu = 0;
  for (const OpCase& op_case : all_op_cases()) {
    INFO(op_case.name);
    const DType dtype = op_case.low_precision ? DType::kBFloat16 : DType::kFloat64;
    const std::vector<std::string> real = described(run(op_case, converted(op_case.inputs, dtype)));
    CHECK(dry_results(op_case, dtype, kCpu) == real);
    if (!op_case.low_precision || refuses_gpu(op_case, dtype)) continue;
    CHECK(dry_results(op_case, dtype, kGpu) == real);
    ++cases_on_gpu;
  }
  CHECK(cases_on_gpu > 200);
}
