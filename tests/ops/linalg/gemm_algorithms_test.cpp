#include "ops/linalg/gemm_algorithms.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace moh;

namespace {

constexpr const char* kMadeFor = "cuBLASLt 130100, some GPU";
const std::string head_text = std::string("moh gemm algorithms 1\n") + kMadeFor + "\n";
const std::string line_text =
    "NT 8x4x2: fused id 66 tile 20 splits 1 reduction 0 swizzle 1 custom 0 stages 15 inner_shape 2 "
    "cluster_shape 3\n";

GemmAlgorithms read(const std::string& text) {
  return {kMadeFor, text, "runs/gemm.txt"};
}

}  // namespace

TEST_CASE("gemm algorithms: what is written is read back") {
  GemmAlgorithms written(kMadeFor);
  const GemmAlgorithm first{true, {66, 20, 1, 0, 1, 0, 15, 2, 3}};
  const GemmAlgorithm second{false, {4294967295, 0, 4, 2, 0, 7, 0, 65535, 0}};
  written.add("NT 8x4x2", first);
  written.add("TN 1x2x3 ld 4 5 6 accumulate", second);
  const GemmAlgorithms found = read(written.to_text());
  REQUIRE(found.find("NT 8x4x2") != nullptr);
  CHECK(*found.find("NT 8x4x2") == first);
  CHECK(*found.find("TN 1x2x3 ld 4 5 6 accumulate") == second);
  CHECK(found.find("NT 8x4x3") == nullptr);
  CHECK(found.to_text() == written.to_text());
  CHECK(written.to_text().starts_with(head_text + line_text));
  CHECK(read("").find("NT 8x4x2") == nullptr);
}

TEST_CASE("gemm algorithms: a text that is anything else is refused with its line") {
  CHECK_NOTHROW(read(head_text + line_text));
  const auto refusal = [](const std::string& text, const std::string& message) {
    INFO(text);
    CHECK_THROWS_AS(read(text), DataError);
    CHECK_THROWS_WITH(read(text), Catch::StartsWith(message) && Catch::EndsWith("searched again"));
  };
  refusal("learning_rate: 1\n",
          "runs/gemm.txt:1: expected 'moh gemm algorithms 1', found 'learning_rate: 1'");
  refusal("moh gemm algorithms 2\n", "runs/gemm.txt:1: expected 'moh gemm algorithms 1'");
  refusal("moh gemm algorithms 1\n",
          "runs/gemm.txt:1: expected algorithms for cuBLASLt 130100, some GPU, found ''");
  refusal("moh gemm algorithms 1\ncuBLASLt 120900, some GPU\n" + line_text,
          "runs/gemm.txt:2: expected algorithms for cuBLASLt 130100, some GPU, found 'cuBLASLt 120900, some "
          "GPU'");
  const std::string bad =
      "runs/gemm.txt:3: expected PRODUCT: fused or separate, then the settings of an algorithm";
  refusal(head_text + "\n", bad);
  refusal(head_text + "NT 8x4x2\n", bad);
  refusal(head_text + "NT 8x4x2: melted" + line_text.substr(15), bad);
  refusal(head_text + line_text.substr(0, line_text.size() - 3) + "\n", bad);           // a number is missing
  refusal(head_text + line_text.substr(0, line_text.size() - 1) + " colour 3\n", bad);  // and one too many
  refusal(head_text + "NT 8x4x2: fused id -1" + line_text.substr(line_text.find(" tile")), bad);
  refusal(head_text + "NT 8x4x2: fused id 4294967296" + line_text.substr(line_text.find(" tile")), bad);
  refusal(head_text + "NT 8x4x2: fused id 6six" + line_text.substr(line_text.find(" tile")), bad);
  refusal(head_text + line_text.substr(0, line_text.size() - 1),
          "runs/gemm.txt:3: expected a line that ends");
  refusal(head_text + line_text + line_text,
          "runs/gemm.txt:4: expected one line for each matrix multiplication");
  refusal(std::string("\x1b[2J\0\xff\n", 7),
          "runs/gemm.txt:1: expected 'moh gemm algorithms 1', found '?[2J?\?'");
  refusal(std::string(100000, 'x'),
          "runs/gemm.txt:1: expected a line that ends, found '" + std::string(100, 'x') + "'");
}
