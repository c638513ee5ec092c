// The balance of heads besides the paper's loss against plain loops of Python (tests/golden/balance/make.py),
// in float64.

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ops/moh/balance_bias.h"
#include "ops/moh/head_router.h"

using namespace moh;

namespace {

using Json = nlohmann::json;

Json golden_routers() {
  return Json::parse(std::ifstream(std::string(MOH_SOURCE_DIR) + "/tests/golden/balance/routers.json"));
}

Tensor matrix(const Json& rows) {
  std::vector<double> all;
  for (const Json& row : rows) {
    for (const Json& value : row) all.push_back(value);
  }
  const auto height = static_cast<std::int64_t>(rows.size());
  return tensor_of<double>({height, static_cast<std::int64_t>(all.size()) / height}, all);
}

RouterOptions balance_options(const Json& file, const Json& golden_case) {
  RouterOptions o{.heads = file["heads"], .num_shared = 0, .top_k = golden_case["top_k"]};
  o.groups = golden_case["groups"];
  o.balance_loss = BalanceLoss::kCv;
  return o;
}

}  // namespace

TEST_CASE("golden: the squared coefficient of variation of the heads' importance, and its gradient") {
  const Json file = golden_routers();
  REQUIRE(file["cases"].size() == 3);
  for (const Json& each : file["cases"]) {
    INFO("top " << each["top_k"] << " in " << each["groups"] << " groups");
    const Variable z(matrix(each["logits"]), true);
    const Routing routing = route_heads({}, z, {}, file["tokens"], balance_options(file, each));
    CHECK(routing.balance.value().item() == Approx(each["variation"].get<double>()).epsilon(1e-12));
    routing.balance.backward();
    const Tensor expected = matrix(each["gradient"]);
    for (std::int64_t i = 0; i < expected.numel(); ++i)
      CHECK(z.grad().data<double>()[i] == Approx(expected.data<double>()[i]).epsilon(1e-6).margin(1e-9));
  }
}

TEST_CASE("golden: biases of the selection over twenty steps") {
  const Json file = golden_routers();
  for (const Json& each : file["cases"]) {
    INFO("top " << each["top_k"] << " in " << each["groups"] << " groups");
    const RouterOptions options = balance_options(file, each);
    const Tensor bias = zeros({options.heads}, DType::kFloat64);
    REQUIRE(each["steps"].size() == 20);
    for (const Json& step : each["steps"]) {
      const Variable z(matrix(step["logits"]));
      const Routing routing = route_heads({}, z, {}, file["tokens"], options, {}, {}, kCpu, {}, bias);
      const Tensor top = matrix(step["top"]);
      for (std::int64_t i = 0; i < top.numel(); ++i)
        CHECK(routing.top.data<std::int32_t>()[i] == top.data<double>()[i]);
      update_balance_bias(bias, {routing.load.reshape({1, options.heads}), 0}, options.groups, file["rate"]);
      for (std::int64_t e = 0; e < options.heads; ++e)
        CHECK(bias.data<double>()[e] ==
              Approx(step["bias"][static_cast<std::size_t>(e)].get<double>()).margin(1e-12));
    }
  }
}
