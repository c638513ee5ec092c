// Every op that the sources record must occur in the graph of some gradient-checked case.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "autograd/node.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

std::set<std::string> recorded_names_in(const std::filesystem::path& folder) {
  static const std::regex pattern(R"(record(?:_outputs)?\(\s*"([a-z0-9_]+)\")");
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern);
         match != std::sregex_iterator(); ++match) {
      names.insert((*match)[1]);
    }
  }
  return names;
}

}  // namespace

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
  const std::filesystem::path root = MOH_SOURCE_DIR;
  std::set<std::string> recorded;
  for (const char* layer : {"autograd", "ops", "models"}) recorded.merge(recorded_names_in(root / layer));
  REQUIRE(recorded.count("rms_norm") == 1);  // the pattern still finds what it should
  for (const std::string& name : recorded) {
    INFO("op " << name << " has no OP_CASES entry with a gradient check");
    CHECK(checked.count(name) == 1);
  }
}
