#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/first_way.h"
#include "tests/ops/device_checks.h"
#include "tests/ops/op_cases.h"

using namespace moh;

namespace {

/// The names under which kernels are launched in the CUDA sources of the tree.
std::set<std::string> launched_in_sources() {
  const std::regex launch(
      R"((?:(?:launch|launch_each|launch_map<[^>]*>|column_sums|column_means|sum_parts)\(|_kernel =)\s*"(\w+)\")");
  std::set<std::string> names;
  for (const char* folder : {"core", "ops"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(std::string(MOH_SOURCE_DIR) + "/" + folder)) {
      const std::string extension = entry.path().extension().string();
      if (extension != ".cu" && extension != ".h") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      const std::string code = text.str();
      for (auto match = std::sregex_iterator(code.begin(), code.end(), launch);
           match != std::sregex_iterator(); ++match)
        names.insert((*match)[1]);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("sim: every kernel of the sources runs in the tests", "[sim]") {
  const std::set<std::string> names = launched_in_sources();
  CHECK(names.size() > 30);
  const test::FirstWay first;  // the tests themselves go all of them
  for (const test::OpCase& op_case : test::all_op_cases()) test::check_op_case(op_case);
  test::check_tensors_on_device();
  test::check_indices_on_device();
  test::check_head_lists_on_device();
  test::check_top1_on_device();
  test::check_balance_bias_on_device();
  test::check_window_pool_on_device();
  test::check_router_statistics_on_device();
  test::check_bias_kernels_on_device();
  test::check_gelu_mlp_kernels_on_device();
  test::check_optimizer_on_device();
  test::check_dropout_keys_on_device();
  test::check_attention_on_device();
  test::check_collectives_on_device();
  for (const std::string& name : names) {
    INFO("kernel " << name << " was never launched: give its op a case that does, or add to device_checks");
    CHECK(sim::LaunchLog::instance().counts().contains(name));
  }
}
