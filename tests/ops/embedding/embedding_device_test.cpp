#include <catch2/catch.hpp>

#include "tests/ops/device_ways.h"
#include "tests/ops/embedding/run_checks.h"

using namespace moh;

TEST_CASE("device: embedding sums runs of ids across all borders", "[device]") {
  test::in_each_way([](const std::string& way) {
    INFO(way);
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
      test::check_embedding_runs(test::open_gpu(), dtype);
  });
}
