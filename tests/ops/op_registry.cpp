#include "core/random.h"
#include "tests/ops/op_cases.h"

namespace moh::test {

namespace {

struct Registered {
  std::string op;
  OpCases (*cases)();
};

std::vector<Registered>& registry() {
  static std::vector<Registered> entries;
  return entries;
}

}  // namespace

bool register_op_cases(const std::string& op, OpCases (*cases)()) {
  registry().push_back({op, cases});
  return true;
}

OpCases all_op_cases() {
  OpCases all;
  for (const Registered& entry : registry()) {
    for (OpCase& op_case : entry.cases()) all.push_back(std::move(op_case));
  }
  return all;
}

Tensor normal(const Shape& shape, std::uint64_t seed) {
  Tensor tensor = empty(shape, DType::kFloat64);
  fill_normal(tensor, {seed, 7}, 0.0, 1.0);
  return tensor;
}

Tensor uniform(const Shape& shape, double low, double high, std::uint64_t seed) {
  Tensor tensor = empty(shape, DType::kFloat64);
  fill_uniform(tensor, {seed, 8}, low, high);
  return tensor;
}

}  // namespace moh::test
