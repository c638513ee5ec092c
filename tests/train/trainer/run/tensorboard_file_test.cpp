#include "train/trainer/run/tensorboard_file.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <vector>

#include "core/error.h"
#include "tests/support/temporary_folder.h"
#include "train/base/formats/pictures/encode_png.h"
#include "train/base/io/failpoint.h"
#include "train/tokenizers/protobuf.h"
#include "train/trainer/run/metrics_writer.h"

namespace moh {
namespace {

template <class T>
T take_number(std::string_view& bytes) {
  T value;
  REQUIRE(bytes.size() >= sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::uint32_t masked(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

/// The events of a file, their frames checked.
std::vector<std::string> unframed(std::string_view file) {
  std::vector<std::string> events;
  while (!file.empty()) {
    const std::string_view length = file.substr(0, 8);
    const auto size = take_number<std::uint64_t>(file);
    CHECK(take_number<std::uint32_t>(file) == masked(length));
    REQUIRE(size <= file.size());
    events.emplace_back(file.substr(0, size));
    file.remove_prefix(size);
    CHECK(take_number<std::uint32_t>(file) == masked(events.back()));
  }
  return events;
}

std::map<std::uint32_t, ProtobufReader::Field> fields(std::string_view message) {
  std::map<std::uint32_t, ProtobufReader::Field> result;
  ProtobufReader reader(message, "event");
  while (const auto field = reader.next()) result[field->id] = *field;
  return result;
}

struct Shown {
  double time = 0;
  std::int64_t step = 0;
  std::map<std::string, float> scalars;
  std::map<std::string, std::vector<double>> histograms;  ///< heights of the buckets
};

std::vector<double> packed(std::string_view bytes) {
  std::vector<double> values;
  while (!bytes.empty()) values.push_back(take_number<double>(bytes));
  return values;
}

Shown shown(std::string_view event) {
  Shown result;
  const auto of_event = fields(event);
  result.time = std::bit_cast<double>(of_event.at(1).number);
  result.step = static_cast<std::int64_t>(of_event.at(2).number);
  ProtobufReader values(of_event.at(5).bytes, "summary");
  while (const auto value = values.next()) {
    const auto of_value = fields(value->bytes);
    const std::string tag(of_value.at(1).bytes);
    if (of_value.contains(2))
      result.scalars[tag] = std::bit_cast<float>(static_cast<std::uint32_t>(of_value.at(2).number));
    if (!of_value.contains(5)) continue;
    const auto histogram = fields(of_value.at(5).bytes);
    result.histograms[tag] = packed(histogram.at(7).bytes);
    CHECK(packed(histogram.at(6).bytes).size() == result.histograms[tag].size());
  }
  return result;
}

Shown shown_alone(std::string_view record) {
  const std::vector<std::string> events = unframed(tensorboard_event(record, {}));
  REQUIRE(events.size() == 1);
  return shown(events[0]);
}

}  // namespace

TEST_CASE("tensorboard: the checksum is CRC-32C") {
  // RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(crc32c("123456789") == 0xE3069283U);
}

TEST_CASE("tensorboard: numbers are scalars, lists of layers histograms over their elements") {
  const Shown event = shown_alone(
      R"({"kind":"train","step":12,"loss":2.25,"tokens":4096,"head_load":[[0.5,0.125],[],[1]],"margin":[0.5,null,2],"unix_time":1.5,)"
      R"("note":"text"})");
  CHECK(event.time == 1.5);
  CHECK(event.step == 12);
  CHECK(event.scalars == std::map<std::string, float>{{"train/loss", 2.25F},
                                                      {"train/margin/layer_0", 0.5F},
                                                      {"train/margin/layer_2", 2},
                                                      {"train/tokens", 4096}});
  CHECK(event.histograms == std::map<std::string, std::vector<double>>{
                                {"train/head_load/layer_0", {0.5, 0.125}}, {"train/head_load/layer_2", {1}}});
}

TEST_CASE("tensorboard: numbers that JSON lacks are shown as what they were") {
  const Shown event = shown_alone(MetricRecord("event", 3)
                                      .add("event", "non_finite")
                                      .add("loss", std::nan(""))
                                      .add("grad_norm", -INFINITY)
                                      .to_json());
  CHECK(event.scalars.at("event/non_finite") == 1);
  CHECK(std::isnan(event.scalars.at("event/loss")));
  CHECK(event.scalars.at("event/grad_norm") == -INFINITY);
}

TEST_CASE("tensorboard: the picture that a record names is an image, and none where it is gone") {
  const TemporaryFolder folder;
  const std::string png = encode_png(Picture({3, 2}));
  write_file(folder / "a.png", png);
  constexpr std::string_view kRecord = R"({"kind":"eval","step":4,"picture":"a.png"})";
  const std::vector<std::string> events = unframed(tensorboard_event(kRecord, folder.path()));
  REQUIRE(events.size() == 1);
  const auto value = fields(fields(fields(events[0]).at(5).bytes).at(1).bytes);
  CHECK(value.at(1).bytes == "eval/picture");
  const auto image = fields(value.at(4).bytes);
  CHECK(image.at(1).number == 2);
  CHECK(image.at(2).number == 3);
  CHECK(image.at(3).number == 3);  // RGB
  CHECK(image.at(4).bytes == png);
  std::filesystem::remove(folder / "a.png");
  CHECK(tensorboard_event(kRecord, folder.path()).empty());
}

TEST_CASE("tensorboard: what is no record of a step is passed over") {
  for (const char* record :
       {"", "{", "[]", "{}", R"({"kind":1,"step":2,"x":3})", R"({"kind":"a","step":"b","x":1})",
        R"({"kind":"a","step":1})", R"({"kind":"a","step":1,"x":"text"})"}) {
    INFO(record);
    CHECK(tensorboard_event(record, {}).empty());
  }
  CHECK(shown_alone(R"({"kind":"a","step":1,"x":null,"non_finite":7,"unix_time":"?"})").scalars.size() == 1);
}

TEST_CASE("tensorboard: a resumed run shows each step once, whatever the file held") {
  const TemporaryFolder folder;
  const auto metrics = folder / "metrics.jsonl", events = folder / TensorBoardFile::kName;
  const auto steps = [&] {
    const std::vector<std::string> all = unframed(read_file(events));
    REQUIRE(!all.empty());
    CHECK(fields(all[0]).at(3).bytes == "brain.Event:2");
    std::vector<std::int64_t> found;
    for (std::size_t i = 1; i < all.size(); ++i) found.push_back(shown(all[i]).step);
    return found;
  };
  {
    MetricsWriter writer(metrics, -1);
    writer.show_in_tensorboard(events);
    for (int step = 1; step <= 4; ++step) writer.write(MetricRecord("train", step).add("loss", 1.0));
  }
  CHECK(steps() == std::vector<std::int64_t>{1, 2, 3, 4});
  std::ofstream(events, std::ios::app) << "half an ev";  // killed while it wrote
  MetricsWriter resumed(metrics, 2);
  resumed.show_in_tensorboard(events);
  resumed.write(MetricRecord("train", 3).add("loss", 0.5));
  CHECK(steps() == std::vector<std::int64_t>{1, 2, 3});
}

#ifdef MOH_FAILPOINTS
TEST_CASE("tensorboard: a file that cannot be written is a StorageError, and the next run's is whole") {
  const TemporaryFolder folder;
  const auto metrics = folder / "metrics.jsonl", events = folder / TensorBoardFile::kName;
  MetricsWriter writer(metrics, -1);
  writer.show_in_tensorboard(events);
  failpoint::arm("io:write_2=short,io:write_3=ENOSPC");  // the first is that of metrics.jsonl
  CHECK_THROWS_AS(writer.write(MetricRecord("train", 1).add("loss", 1.0)), StorageError);
  failpoint::arm("");
  MetricsWriter next(metrics, 1);
  next.show_in_tensorboard(events);
  CHECK(unframed(read_file(events)).size() == 2);
}
#endif

}  // namespace moh
