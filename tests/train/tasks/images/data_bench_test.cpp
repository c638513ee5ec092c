#include "train/tasks/images/data_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "train/tasks/images/data/shape_pictures.h"

using namespace moh;

TEST_CASE("bench: data reports each stage, all of them, and the threads of training") {
  const PictureSourcePtr source = shape_pictures(64, 32, 1);
  Augmentation augmentation;
  augmentation.size = 24;
  const TrainingPictures data(source, augmentation, {}, SampleOrder(64, 8, 1), 1, OnError::kStop, nullptr);
  std::vector<nlohmann::json> rows;
  const auto keep = [&](const Row& row) { rows.push_back(nlohmann::json::parse(row.json())); };
  run_data_bench(data, {.batch = 8, .batches = 3, .threads = 2}, keep);
  REQUIRE(rows.size() == 8);
  double sum = 0, shares = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    CHECK(rows[i]["threads"] == 1);
    sum += rows[i]["ms_per_image"].get<double>();
    shares += rows[i]["share"].get<double>();
  }
  CHECK(rows[1]["stage"] == "decode");
  CHECK(rows[6]["stage"] == "all");
  CHECK(rows[6]["ms_per_image"].get<double>() == Approx(sum));
  CHECK(shares == Approx(1));
  CHECK(rows[7]["stage"] == "training");
  CHECK(rows[7]["threads"] == 2);
  CHECK(rows[7]["images_per_s"] > 0);
  CHECK_THROWS_WITH(run_data_bench(data, {.batch = 0}, keep),
                    "bench data: batch: expected 1 or more, found 0");
}
