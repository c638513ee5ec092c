#include <catch2/catch.hpp>

#include <string>
#include <utility>
#include <vector>

#include "models/recompute_level.h"
#include "tests/train/trainer/config/config_folder.h"
#include "train/trainer/config/enum_names.h"

namespace moh {
namespace {

std::string text_with(const std::string& value) {
  return "model: {recompute: " + value + "}\n";
}

RecomputeLevel level_of(const RunConfig& run) {
  return model_of(run).recompute;
}

TEST_CASE("recompute: two levels together are the least that contains both") {
  for (const RecomputeLevel a : kRecomputeLevels) {
    for (const RecomputeLevel b : kRecomputeLevels) {
      const RecomputeLevel both = joined(a, b);
      INFO(name_of(a) << ", " << name_of(b) << ": " << name_of(both));
      CHECK(joined(b, a) == both);
      if (a == RecomputeLevel::kLayer || b == RecomputeLevel::kLayer) {
        CHECK(both == RecomputeLevel::kLayer);
      } else {
        CHECK(recomputes_norms(both) == (recomputes_norms(a) || recomputes_norms(b)));
        CHECK(recomputes_mlp(both) == (recomputes_mlp(a) || recomputes_mlp(b)));
        CHECK(recomputes_attention(both) == (recomputes_attention(a) || recomputes_attention(b)));
      }
    }
  }
}

TEST_CASE("recompute: a list of parts is read as their union, and written as its shortest form") {
  const std::vector<std::pair<std::string, std::string>> written = {
      {"[mlp, attention]", "[mlp, attention]"},
      {"[attention, mlp]", "[mlp, attention]"},
      {"[attention, norms, mlp]", "[mlp, attention]"},
      {"[norms, mlp]", "mlp"},
      {"[attention, norms]", "attention"},
      {"[norms]", "norms"},
      {"[layer, mlp]", "layer"},
      {"[mlp, attention, layer]", "layer"},
      {"none", "none"}};
  for (const auto& [value, shortest] : written) {
    INFO(value);
    const RunConfig run = load_text(text_with(value));
    const std::string printed = print_resolved(run);
    CHECK_THAT(printed, Catch::Contains("\n  recompute: " + shortest + "\n"));
    CHECK(name_of(level_of(run)) == shortest);
    CHECK(level_of(load_text(printed)) == level_of(run));
  }
  for (const RecomputeLevel level : kRecomputeLevels) {
    const RunConfig run = load_text(text_with("layer"), {"model.recompute=" + std::string(name_of(level))});
    CHECK(level_of(run) == level);
  }
  CHECK(level_of(load_text(text_with("layer"), {"model.recompute=[mlp,attention]"})) ==
        RecomputeLevel::kMlpAndAttention);
}

TEST_CASE("recompute: lists that mean nothing are refused") {
  const std::string whole = "expected one of none, norms, mlp, attention, [mlp, attention], layer, found ";
  const std::string part = "expected one of norms, mlp, attention, layer, found ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[mlp, attenton]", "1:26: model.recompute[1]: " + part + "attenton; did you mean attention?"},
      {"[mlp, none]", "1:26: model.recompute[1]: " + part + "none"},
      {"[auto, mlp]", "1:21: model.recompute[0]: " + part + "auto"},
      {"[mlp, attention, mlp]", "1:37: model.recompute[2]: " + part + "mlp a second time; name it once"},
      {"[mlp, [attention]]", "1:26: model.recompute[1]: " + part + "a list"},
      {"[]", "1:20: model.recompute: " + whole + "an empty list"},
      {"auto", "1:20: model.recompute: " + whole + "auto"},
      {"{mlp: true}", "1:20: model.recompute: " + whole + "a map"},
      {"'[mlp, attention]'",
       "1:20: model.recompute: " + whole + "the text \"[mlp, attention]\"; remove the quotes"}};
  for (const auto& [value, message] : cases) {
    INFO(value);
    CHECK(error_of(text_with(value)) == "a.yaml:" + message);
  }
}

}  // namespace
}  // namespace moh
