#include "train/trainer/config/active_heads.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "models/active_heads.h"
#include "tests/support/language_runs.h"
#include "tests/support/message_of.h"
#include "train/families/families.h"
#include "train/trainer/config/load_run_config.h"
#include "train/trainer/task/load_model.h"

namespace moh {
namespace {

using Catch::Contains;

constexpr const char* kTwelve = "model: {layers: 2, hidden: 48, heads: 12, moh: {router: learned, ";

/// A run whose layers have 12 heads, with these settings of model.moh, and the notes about it.
struct Read {
  explicit Read(const std::string& moh, const std::vector<std::string>& overrides = {},
                const std::string& before = kTwelve)
      : file(RunFile::of_text("a.yaml", before + moh + "}}\n", families().configs(), overrides)),
        run(file.finish(ConfigUse::kModel)) {}

  const MohConfig& moh() const { return *run.family->moh(); }
  std::string text() const { return active_heads_of(run, families().of(run)); }
  std::string notes() const {
    std::string all;
    for (const std::string& note : file.notes()) all += note + "\n";
    return all;
  }

  RunFile file;
  RunConfig run;
};

std::string refusal(const std::string& moh, const std::vector<std::string>& overrides = {}) {
  return message_of<ConfigError>([&] { Read(moh, overrides); });
}

TEST_CASE("active heads: a share counts the shared heads, whatever their number") {
  for (const auto& [settings, top_k, text] :
       {std::tuple{"num_shared: 3, active: 75%", 6, "3 shared + 6 of 9 = 75%"},
        {"num_shared: 25%, active: 75%", 6, "3 shared + 6 of 9 = 75%"},
        {"active: 75%", 9, "0 shared + 9 of 12 = 75%"},
        {"num_shared: 2, active: 5", 3, "2 shared + 3 of 10 = 41.7%"},
        {"num_shared: 12, active: 12", 0, "12 shared + 0 of 0 = 100%"}}) {
    INFO(settings);
    const Read read(settings);
    CHECK(read.moh().top_k == top_k);
    CHECK(read.moh().active == PerLayer());
    CHECK(read.text() == text);
    CHECK(read.notes().empty());
  }
}

TEST_CASE("active heads: lists by layer, alone or beside another list") {
  CHECK(Read("num_shared: 2, active: [4, 6]").moh().top_k == std::vector<std::int64_t>{2, 4});
  CHECK(Read("num_shared: [2, 3], active: 50%").moh().top_k == std::vector<std::int64_t>{4, 3});
  CHECK(Read("num_shared: [2, 3], active: 50%").text() == "5 shared + 7 of 19 in 2 layers = 50%");
  CHECK_THAT(
      refusal("num_shared: 2, active: [4, 6, 6]"),
      Contains("model.moh.active: expected one value, or one per layer (model.layers is 2), found a list "
               "of 3"));
  CHECK_THAT(refusal("num_shared: [1, 1, 1], active: [4, 6]"), Contains("model.moh.num_shared"));
}

TEST_CASE("active heads: those of a preset give way, those of the user are refused") {
  const std::string preset = "model: {preset: moh_llm_s_75, moh: {";
  CHECK(Read("active: 50%", {}, preset).text() == "3 shared + 3 of 9 = 50%");
  CHECK(Read("num_shared: 2", {"model.moh.active=75%"}, preset).text() == "2 shared + 7 of 10 = 75%");
  CHECK_THAT(refusal("num_shared: 3, top_k: 6, active: 75%"),
             Contains("model.moh.active: expected 0 with model.moh.top_k, found both"));
  CHECK_THAT(refusal("num_shared: 3, top_k: 6", {"model.moh.active=75%"}), Contains("found both"));
  CHECK_THAT(refusal("num_shared: 3, top_k_ratio: 0.5, active: 75%"),
             Contains("0 with model.moh.top_k_ratio, found both"));
  CHECK(Read("num_shared: 3, top_k: 6", {"model.moh.active=50%", "model.moh.top_k=0"}).moh().top_k == 3);
}

TEST_CASE("active heads: numbers that leave no head to route, or need more than there are, are refused") {
  CHECK_THAT(
      refusal("num_shared: 3, active: 3"),
      Contains("model.moh.active: expected more than model.moh.num_shared (3), and at most model.heads "
               "(12), found 3 (layer 0); it counts the shared heads, too"));
  CHECK_THAT(refusal("num_shared: 3, active: 2"), Contains("found 2 (layer 0)"));
  CHECK_THAT(refusal("num_shared: 3, active: 13"), Contains("found 13 (layer 0)"));
  CHECK_THAT(refusal("num_shared: 3, active: 40%"),
             Contains("model.moh.active: expected a share that is a whole number of the 12 heads, found 40%, "
                      "which is 4.8"));
  CHECK_THAT(refusal("active: 75%", {"model.moh.router=none"}), Contains("model.moh.router"));
}

TEST_CASE("active heads: a share for top_k says what is active in all") {
  CHECK_THAT(
      Read("num_shared: 3, top_k: 50%").notes(),
      Contains("model.moh.top_k: 50% of all heads are routed on top of the shared ones: 3 shared + 6 of 9 "
               "= 75% are active; for 50% in all, shared heads included, set model.moh.active: 50% in "
               "its place"));
  CHECK_THAT(Read("num_shared: [3, 6], top_k: 25%").notes(),
             Contains("3 shared + 3 of 9 = 50%, 6 shared + 3 of 6 = 75% are active"));
  CHECK(Read("top_k: 75%").notes().empty());  // nothing is shared: it means what it says
  CHECK(Read("num_shared: 3, top_k: 6").notes().empty());
}

TEST_CASE("active heads: layers that keep all routed heads are told") {
  CHECK_THAT(
      Read("num_shared: 3, top_k: 75%").notes(),
      Contains("3 shared + 9 of 9 = 100% are active") &&
          Contains("every token keeps all routed heads (3 shared + 9 of 9 = 100% active), so nothing is "
                   "routed there"));
  for (const char* all :
       {"num_shared: 3, top_k: 9", "top_k: 12", "num_shared: 3, top_k_ratio: 1", "active: 12"}) {
    INFO(all);
    CHECK_THAT(Read(all).notes(), Contains("nothing is routed there"));
  }
  const Read some("num_shared: 3, top_k: [6, 9]");
  CHECK(some.notes().empty());  // a preset of the paper has such layers
  CHECK_THAT(
      config::note_of_some_layers(some.moh(), some.run.family->heads()),
      Contains(
          "every token keeps all routed heads in entries 1 of the lists (3 shared + 6 of 9 = 75%, 3 shared "
          "+ 9 of 9 = 100% active)"));
  for (const char* other :
       {"num_shared: 3, top_k: 6", "num_shared: 3, top_k: 9", "num_shared: 12, top_k: 0"}) {
    const Read read(other);
    CHECK(config::note_of_some_layers(read.moh(), read.run.family->heads()).empty());
  }
  CHECK(Read("num_shared: 12, top_k: 0").notes().empty());  // there is none to route
  CHECK(Read("num_shared: [3, 12], top_k: [6, 0]").notes().empty());
}

TEST_CASE("active heads: groups are counted in KV heads") {
  const std::string groups =
      "model: {layers: 2, hidden: 48, heads: 12, kv_heads: 4, moh: {router: learned, routing: groups, ";
  const Read read("num_shared: 1, active: 75%", {}, groups);
  CHECK(read.moh().top_k == 2);
  CHECK(read.text() == "1 shared + 2 of 3 = 75%");
}

TEST_CASE("active heads: inside KV groups they are those of the layer, multiples of the KV heads") {
  const auto within = [](const std::string& sizes) {
    return "model: {layers: 2, hidden: 48, heads: 12, " + sizes +
           "moh: {router: learned, routing: within_groups, ";
  };
  const Read read("num_shared: 25%, active: 50%", {}, within("kv_heads: 3, "));
  CHECK(read.moh().num_shared == 3);
  CHECK(read.moh().top_k == 3);
  CHECK(read.text() == "3 shared + 3 of 9 = 50%");
  const auto refused = [&](const std::string& moh, const std::string& sizes) {
    return message_of<ConfigError>([&] { Read(moh, {}, within(sizes)); });
  };
  CHECK_THAT(refused("num_shared: 3, active: 8", "kv_heads: 3, "),
             Contains("model.moh.active: expected a multiple of model.kv_heads (3), found 8 (layer 0); with "
                      "routing: within_groups each KV group has as many"));
  CHECK_THAT(
      refused("num_shared: 3, top_k: 6", ""),
      Contains("model.moh.routing: expected heads, as each of the 12 query heads has a KV head of its own, "
               "found within_groups; set model.kv_heads to a divisor of model.heads below it"));
}

}  // namespace
}  // namespace moh
