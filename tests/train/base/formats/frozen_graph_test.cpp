#include "train/base/formats/tensorflow/frozen_graph.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "tests/support/temporary_folder.h"

using namespace moh;

namespace {

std::string varint(std::uint64_t value) {
  std::string made;
  for (; value > 127; value >>= 7) made += static_cast<char>((value & 127) | 128);
  return made + static_cast<char>(value);
}

std::string field(std::uint32_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}
std::string field(std::uint32_t number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}
std::string fixed(std::uint32_t number, float value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return varint(number << 3 | 5) + bytes;
}

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::string shape(const std::vector<std::uint64_t>& extents) {
  std::string axes;
  for (const std::uint64_t extent : extents) axes += field(2, field(1, extent));
  return field(2, axes);
}

/// A node Const whose TensorProto has this type, shape and further fields.
std::string constant(const std::string& name, const std::vector<std::uint64_t>& extents,
                     const std::string& elements, std::uint64_t type = 1) {
  const std::string tensor = field(1, type) + shape(extents) + elements;
  const std::string value = field(1, std::string("value")) + field(2, field(8, tensor));
  return field(1, field(1, name) + field(2, std::string("Const")) + field(5, value));
}

std::string norm(const std::string& name, float epsilon, bool scales) {
  const auto attribute = [](const std::string& key, const std::string& value) {
    return field(5, field(1, key) + field(2, value));
  };
  return field(1, field(1, name) + field(2, std::string("BatchNormWithGlobalNormalization")) +
                      attribute("variance_epsilon", fixed(4, epsilon)) +
                      attribute("scale_after_normalization", field(5, std::uint64_t{scales})));
}

class Graph {
 public:
  explicit Graph(const std::string& bytes) : path_(folder_.path() / "graph.pb") {
    std::ofstream(path_, std::ios::binary) << bytes;
  }
  FrozenGraph open() const { return FrozenGraph(path_); }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

std::vector<float> elements(const FrozenGraph& graph, std::string_view name) {
  const WeightInfo* info = graph.find(name);
  REQUIRE(info != nullptr);
  std::vector<float> values(info->bytes / sizeof(float));
  graph.read(*info, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

}  // namespace

TEST_CASE("frozen graph: constants of type float are listed and read") {
  const Graph file(constant("w", {1, 3}, field(4, floats({1, 2, 3}))) +
                   constant("filled", {4}, field(5, floats({5, 6}))) + constant("one", {}, fixed(5, 0.5F)) +
                   constant("none", {2, 0}, "") + constant("size", {1}, field(4, std::string(4, '\1')), 3) +
                   field(1, field(1, std::string("conv")) + field(2, std::string("Conv2D"))) +
                   norm("conv/batchnorm", 0.001F, true) + norm("plain", 0.5F, false) + field(3, 1));
  const FrozenGraph graph = file.open();
  CHECK(graph.tensors().size() == 4);
  CHECK(graph.find("w")->shape == Shape{1, 3});
  CHECK(elements(graph, "w") == std::vector<float>{1, 2, 3});
  CHECK(elements(graph, "filled") == std::vector<float>{5, 6, 6, 6});
  CHECK(elements(graph, "one") == std::vector<float>{0.5});
  CHECK(elements(graph, "none").empty());
  float last = 0;
  graph.read(*graph.find("filled"), 12, std::as_writable_bytes(std::span(&last, 1)));
  CHECK(last == 6);
  REQUIRE(graph.norm("conv/batchnorm") != nullptr);
  CHECK(graph.norm("conv/batchnorm")->epsilon == Approx(0.001));
  CHECK(graph.norm("conv/batchnorm")->scales);
  CHECK_FALSE(graph.norm("plain")->scales);
  CHECK(graph.norm("w") == nullptr);
}

TEST_CASE("frozen graph: what is wrong is named") {
  const auto refused = [](const std::string& bytes, const std::string& message) {
    INFO(message);
    CHECK_THROWS_WITH(Graph(bytes).open(), Catch::Contains(message));
    CHECK_THROWS_AS(Graph(bytes).open(), CheckpointError);
  };
  const std::string good = constant("w", {2}, field(4, floats({1, 2})));
  for (std::size_t size = 1; size < good.size(); ++size)
    CHECK_THROWS_AS(Graph(good.substr(0, size)).open(), CheckpointError);
  refused("", "a graph of TensorFlow, found a file without nodes");
  refused(good + good, "node w: expected one constant of a name, found two");
  refused(constant("w", {3}, field(4, floats({1, 2}))), "node w: expected 12 bytes");
  refused(constant("w", {1}, field(5, floats({1, 2}))), "at most the 1 of its shape, found 2");
  refused(constant("w", {1}, ""), "found 0");
  refused(constant("w", {~std::uint64_t{0}}, fixed(5, 1)), "-1 as the length of axis 0");
  refused(constant("w", {1U << 30, 1U << 30}, fixed(5, 1)), "as the length of axis 1");
  refused(constant("w", {1, 1, 1, 1, 1, 1, 1}, fixed(5, 1)), "at most 6 axes");
  refused(field(1, field(1, std::string(5000, 'x'))), "at most 4096 bytes, found 5000");
  refused(std::string(12, '\xFF'), "byte 0: expected a number of at most 64 bits");
  refused("\x0B", "a field of type 3");
}
