#include "train/apps/watch/run_data.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>

#include "tests/support/temporary_folder.h"

using namespace moh::watch;

namespace {

/// A run whose file has these lines.
struct Run {
  explicit Run(const std::string& text) { std::ofstream(folder.path() / "metrics.jsonl") << text; }

  void read(const DataLimits& limits = {}) {
    while (data.advance(limits)) {
    }
  }
  std::vector<Point> points(const std::string& name) const {
    std::vector<Point> found;
    data.with_points(name,
                     [&](std::span<const Point> points) { found.assign(points.begin(), points.end()); });
    return found;
  }

  moh::TemporaryFolder folder;
  RunData data{folder.path()};
};

}  // namespace

TEST_CASE("watch: numbers have the names of TensorBoard") {
  Run run(
      R"({"kind":"train","step":2,"loss":1.5,"router_margin":[0.25,null,0.75],"head_load":[[0.5,1],[0,0.25]],"unix_time":1.0}
{"kind":"eval","step":2,"loss":1.25,"picture":"samples/a.png"}
{"kind":"event","step":3,"event":"spike","loss":9,"grad_norm":null,"non_finite":{"grad_norm":"inf"}}
)");
  CHECK(run.data.facts().loaded == 0.0);
  run.read();
  const RunData::Facts facts = run.data.facts();
  CHECK(facts.names == std::vector<std::string>{"eval/loss", "event/loss", "event/spike", "train/loss",
                                                "train/router_margin/layer_0",
                                                "train/router_margin/layer_2"});
  CHECK(facts.loaded == 1.0);
  CHECK(facts.last_step == 3);
  REQUIRE(run.points("train/router_margin/layer_2").size() == 1);
  CHECK(run.points("train/router_margin/layer_2")[0].value == 0.75F);
  const HeadFrames heads = run.data.heads();
  CHECK(heads.heads() == std::vector<std::uint32_t>{2, 2});
  REQUIRE(heads.frames().size() == 1);
  CHECK(heads.frames()[0].shares == std::vector<std::uint16_t>{32768, 65535, 0, 16384});
}

TEST_CASE("watch: lines that are no records are passed over") {
  Run run(std::string(100000, '[') +
          "\n{\"kind\":\"train\",\"step\":1,\n[1]\n{\"kind\":1,\"step\":1}\n{\"kind\":\"train\",\"step\":-1,"
          "\"a\":1}\n"
          "{\"kind\":\"train\",\"step\":4294967296,\"a\":1}\n{\"kind\":\"train\",\"step\":1.5,\"a\":1}\n"
          "{\"kind\":\"train\",\"step\":1,\"a\":1e300,\"head_load\":[1,[2]]}\n\xff\xfe\n{\"kind\":\"train\","
          "\"step\":7,\"loss\":2}\n");
  run.read();
  CHECK(run.data.facts().names == std::vector<std::string>{"train/head_load/layer_0", "train/loss"});
  CHECK(run.data.heads().frames().empty());
}

TEST_CASE("watch: the memory of a run is bounded, by numbers, names and frames") {
  std::string text;
  for (int step = 1; step <= 3000; ++step)
    text += R"({"kind":"train","step":)" + std::to_string(step) + R"(,"loss":)" +
            std::to_string(step == 1234 ? 50 : step % 5) + R"(,"a":1,"name)" + std::to_string(step) +
            R"(":1,"head_load":[[0.5,0.5]]})" + "\n";
  Run run(text);
  constexpr DataLimits kLimits = {.points = 2000, .frame_bytes = 4096};
  run.read(kLimits);
  const RunData::Facts facts = run.data.facts();
  std::size_t points = 0;
  for (const std::string& name : facts.names) points += run.points(name).size();
  CHECK(points <= kLimits.points);
  CHECK(facts.names.size() <= 1024);
  const std::vector<Point> loss = run.points("train/loss");
  CHECK(std::ranges::max_element(loss, {}, &Point::value)->value == 50.0F);
  CHECK(run.data.heads().frames().size() * sizeof(HeadFrames::Frame) <= kLimits.frame_bytes);
}

TEST_CASE("watch: a run that is resumed from an earlier checkpoint loses what was cut") {
  const auto record = [](int step, int loss) {
    return R"({"kind":"train","step":)" + std::to_string(step) + R"(,"loss":)" + std::to_string(loss) + "}\n";
  };
  Run run(record(1, 9) + record(2, 8) + record(3, 7));
  run.read();
  const std::uint64_t revision = run.data.facts().revision;
  std::ofstream(run.folder.path() / "metrics.jsonl") << record(1, 9) + record(2, 6);
  run.read();
  REQUIRE(run.points("train/loss").size() == 2);
  CHECK(run.points("train/loss")[1].value == 6.0F);
  CHECK(run.data.facts().last_step == 2);
  CHECK(run.data.facts().revision != revision);
}
