#include "train/weights/fold_names.h"

#include <catch2/catch.hpp>

namespace moh {

TEST_CASE("weights: names of layers that are alike share a line") {
  const std::vector<std::string> names = {"layers.0.w", "layers.1.w",  "norm",          "layers.10.w",
                                          "a.0.b.3.c",  "a.1.b.2.c",   "layers.0.bias", "2d.w",
                                          "alone.7.w",  "layers.bad\n"};
  CHECK(fold_lines(names) == std::vector<std::string>{"layers.{0-10}.w (3)", "norm", "a.{0-1}.b.{2-3}.c (2)",
                                                      "layers.0.bias", "2d.w", "alone.7.w",
                                                      "layers.bad\\x0a"});
}

TEST_CASE("weights: of names that are alike the same may be wrong") {
  CHECK(fold_lines(
            std::vector<std::string>{"l.0.w: expected [2], found [3]", "l.1.w: expected [2], found [3]",
                                     "l.2.w: expected [2], found [4]", "norm: expected [2], found [3]"}) ==
        std::vector<std::string>{"l.{0-1}.w (2): expected [2], found [3]", "l.2.w: expected [2], found [4]",
                                 "norm: expected [2], found [3]"});
}

TEST_CASE("weights: a file with names without end does not make a message without end") {
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back("n" + std::to_string(i));
  const std::vector<std::string> lines = fold_lines(names);
  REQUIRE(lines.size() == kMostFoldedLines + 1);
  CHECK(lines.back() == "... and " + std::to_string(1000 - kMostFoldedLines) + " more");
  names.resize(kMostFoldedLines);
  CHECK(fold_lines(names) == names);
}

TEST_CASE("weights: tensors of another type or shape do not") {
  const std::vector<WeightInfo> tensors = {{"l.0.w", "F32", {2}, 8},
                                           {"l.1.w", "F32", {2}, 8},
                                           {"l.2.w", "F32", {3}, 12},
                                           {"l.3.w", "F16", {2}, 4}};
  const std::vector<FoldedNames> folded = fold_tensors(tensors);
  REQUIRE(folded.size() == 3);
  CHECK(folded[0].name == "l.{0-1}.w");
  CHECK(folded[0].count == 2);
  CHECK(folded[0].first == 0);
  CHECK(folded[1].name == "l.2.w");
  CHECK(folded[2].name == "l.3.w");
}

}  // namespace moh
