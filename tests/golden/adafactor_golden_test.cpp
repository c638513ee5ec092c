// Adafactor against transformers' (tests/golden/adafactor/make.py), in float64.

#include <catch2/catch.hpp>
#include <fstream>

#include "ops/optim/adafactor.h"
#include "tests/golden/json_layers.h"

using namespace moh;
using namespace moh::test;

TEST_CASE("golden: steps of Adafactor, whose updates are clipped") {
  const Json file =
      Json::parse(std::ifstream(std::string(MOH_SOURCE_DIR) + "/tests/golden/adafactor/steps.json"));
  CHECK(file["cases"].size() == 4);
  for (const auto& [name, each] : file["cases"].items()) {
    INFO(name);
    const Tensor rows = tensor_of_rows(each["value"]);
    const Shape shape = name == "vector" ? Shape{rows.numel()} : rows.shape();
    const AdafactorShapes state = adafactor_shapes(shape);
    const AdamWParameter p{.value = rows.reshape(shape),
                           .grad = empty(shape, DType::kFloat64),
                           .exp_avg_sq = zeros(state.exp_avg_sq, DType::kFloat64),
                           .weight_decay = file["weight_decay"],
                           .exp_avg_sq_row = zeros(state.exp_avg_sq_row, DType::kFloat64)};
    AdamWStep step{.step = 0, .learning_rate = file["learning_rate"]};
    for (const Json& after : each["steps"]) {
      ++step.step;
      p.grad.copy_from(tensor_of_rows(after["grad"], shape));
      adamw({&p, 1}, step);
      check_close(p.value, tensor_of_rows(after["value"], shape));
    }
  }
}
