#include "train/trainer/run/metrics_writer.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <limits>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/base/io/failpoint.h"

using namespace moh;

namespace {

MetricRecord train_record(std::int64_t step) {
  return MetricRecord("train", step).add("loss", 2.5);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

}  // namespace

TEST_CASE("metrics: a record is one line of JSON, its fields in the order they were added") {
  const std::vector<std::vector<float>> load = {{0.5F, 0.1F}, {}, {1.0F}};
  const MetricRecord record = MetricRecord("train", 12)
                                  .add("loss", 2.25)
                                  .add("learning_rate", 1e-5)
                                  .add("tokens", std::int64_t{1} << 40)
                                  .add("head_load", load)
                                  .add("note", "a \"b\"\n\xFF");
  CHECK(record.to_json() ==
        R"({"kind":"train","step":12,"loss":2.25,"learning_rate":1e-05,"tokens":1099511627776,)"
        R"("head_load":[[0.5,0.1],[],[1]],"note":"a \"b\"\n)"
        "\xEF\xBF\xBD\"}");
  CHECK_THROWS_AS(MetricRecord("train", 1).add("step", 2), InternalError);
}

TEST_CASE("metrics: numbers read back exactly") {
  for (double value : {0.1, 1.0 / 3, 1e300, 5e-324, -0.0, 123456789.123456789}) {
    const std::string line = MetricRecord("train", 1).add("x", value).to_json();
    CHECK(std::strtod(line.c_str() + line.find("\"x\":") + 4, nullptr) == value);
  }
}

TEST_CASE("metrics: numbers that JSON lacks become null, and the line says which they were") {
  const std::vector<std::vector<float>> load = {{0.5F, -kInfinity, kInfinity}};
  CHECK(MetricRecord("train", 1)
            .add("loss", kNan)
            .add("grad_norm", kInfinity)
            .add("head_load", load)
            .to_json() ==
        R"({"kind":"train","step":1,"loss":null,"grad_norm":null,"head_load":[[0.5,null,null]],)"
        R"("non_finite":{"loss":"nan","grad_norm":"inf","head_load":"-inf"}})");
}

TEST_CASE("metrics: kill and resume leave each step exactly once") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  {
    MetricsWriter writer(path, -1);
    for (int step = 1; step <= 7; ++step) writer.write(train_record(step));
    writer.write(MetricRecord("eval", 5).add("loss", 3.0));  // out of order, as from a slower evaluation
  }
  {
    std::ofstream(path, std::ios::app) << R"({"kind":"train","st)";  // killed by a power cut
  }
  MetricsWriter resumed(path, 5);
  CHECK(resumed.repaired_torn_line());
  CHECK(resumed.dropped_records() == 2);
  for (int step = 6; step <= 8; ++step) resumed.write(train_record(step));
  std::string expected;
  for (int step = 1; step <= 5; ++step) expected += train_record(step).to_json() + "\n";
  expected += R"({"kind":"eval","step":5,"loss":3})"
              "\n";
  for (int step = 6; step <= 8; ++step) expected += train_record(step).to_json() + "\n";
  CHECK(read_file(path) == expected);
}

TEST_CASE("metrics: a new run keeps nothing of an earlier one") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  MetricsWriter(path, -1).write(train_record(0));
  MetricsWriter writer(path, -1);
  CHECK(writer.dropped_records() == 1);
  CHECK(read_file(path).empty());
}

TEST_CASE("metrics: a record is in the file as soon as write returns") {
  const TemporaryFolder folder;
  MetricsWriter writer(folder / "metrics.jsonl", -1);
  writer.write(train_record(1));
  CHECK(read_file(folder / "metrics.jsonl") == train_record(1).to_json() + "\n");
  CHECK_NOTHROW(writer.sync());
}

TEST_CASE("metrics: a file that cannot be written is a StorageError") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(MetricsWriter(folder / "absent/metrics.jsonl", -1), StorageError);
#ifdef MOH_FAILPOINTS
  MetricsWriter writer(folder / "metrics.jsonl", -1);
  writer.write(train_record(1));
  failpoint::arm("io:write_1=short,io:write_2=ENOSPC");
  CHECK_THROWS_AS(writer.write(train_record(2)), StorageError);
  failpoint::arm("");
  CHECK(read_file(folder / "metrics.jsonl") == train_record(1).to_json() + "\n");  // no half line
  writer.write(train_record(2));
  CHECK(read_file(folder / "metrics.jsonl") ==
        train_record(1).to_json() + "\n" + train_record(2).to_json() + "\n");
#endif
}
