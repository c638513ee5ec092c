#include "train/apps/bench/sample_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"

using namespace moh;

TEST_CASE("bench: sample measures every model, the first one as the measure of the others") {
  DitConfig config{
      .image_size = 8, .patch_size = 2, .channels = 3, .classes = 2, .layers = 1, .hidden = 16, .heads = 4};
  Dit dense(config, DType::kFloat32);
  config.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 1};
  Dit routed(config, DType::kFloat32);
  for (Dit* model : {&dense, &routed}) model->initialise(1);
  SampleBenchOptions options{.batch = 3, .warmups = 0, .repeats = 2};
  std::vector<nlohmann::json> rows;
  const auto run = [&] {
    run_sample_bench(options, {{"dense", &dense}, {"half", &routed}},
                     [&](const Row& row) { rows.push_back(nlohmann::json::parse(row.json())); });
  };
  run();
  REQUIRE(rows.size() == 2);
  CHECK(rows[0]["model"] == "dense");
  CHECK(rows[0]["ratio"] == 1.0);
  CHECK(rows[0]["active"] == 1.0);
  CHECK(rows[1]["active"] == 0.5);
  for (const auto& row : rows)
    CHECK(row["picture_s"].get<double>() == Approx(row["step_ms"].get<double>() * 250 / 3 / 1000));
  options.batch = 0;
  CHECK_THROWS_WITH(run(), Catch::Contains("bench sample: batch-size: expected 1 or more, found 0"));
}
