// Every op that the sources record must occur in the graph of some gradient-checked case.

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "autograd/node.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/recorded_ops.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("ops: every differentiable op has a gradient check") {
  std::set<std::string> checked;
  for (const OpCase& op_case : all_op_cases()) {
    Inputs leaves;
    for (const Tensor& input : op_case.inputs) {
      leaves.push_back(input.defined() ? Variable(input, is_floating(input.dtype())) : Variable());
    }
    for (const Variable& output : op_case.run(leaves)) {
      for (const std::string& name : graph_op_names(output)) checked.insert(name);
    }
  }
  const std::set<std::string> recorded = recorded_ops(MOH_SOURCE_DIR);
  for (const std::string& name : recorded) {
    INFO("op " << name << " has no OP_CASES entry with a gradient check");
    CHECK(checked.count(name) == 1);
  }
}
