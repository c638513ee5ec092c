#include "train/apps/bench/decode_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/table_cells.h"

using namespace moh;

namespace {

DecodeBenchOptions small_options() {
  DecodeBenchOptions options;
  options.model.vocab_size = 64;
  options.model.layers = 1;
  options.model.hidden = 32;
  options.model.intermediate = 48;
  options.model.heads = options.model.kv_heads = 8;
  options.model.head_dim = 8;
  options.contexts = {8, 700};
  options.tokens = 2;
  options.warmups = 1;
  options.repeats = 2;
  return options;
}

std::vector<Row> rows_of(const DecodeBenchOptions& options) {
  std::vector<Row> rows;
  run_decode_bench(options, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

}  // namespace

TEST_CASE("bench: decode reports every context, share and router, dense first") {
  const std::vector<Row> rows = rows_of(small_options());
  REQUIRE(rows.size() == 2 * 5);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto r = nlohmann::json::parse(rows[i].json());
    CHECK(r["context"] == (i < 5 ? 8 : 700));
    CHECK(r["router"] ==
          std::vector<std::string>{"none", "learned", "query_norm", "learned", "query_norm"}[i % 5]);
    CHECK(r["active"] == std::vector<double>{1.0, 0.75, 0.75, 0.5, 0.5}[i % 5]);
    if (i % 5 > 0) CHECK(r["shared"] == 1);
    CHECK(r["tokens_per_s"].get<double>() == Approx(1e3 / r["token_ms"].get<double>()));
    CHECK(r["attention_ms"] > 0);
    if (i % 5 == 0) CHECK((r["ratio"] == 1.0 && r["attention_ratio"] == 1.0));
  }
}

TEST_CASE("bench: decode refuses options that are out of range, naming them") {
  DecodeBenchOptions options = small_options();
  options.contexts = {0};
  CHECK_THROWS_WITH(rows_of(options), Catch::Contains("bench decode: context: expected 1 or more, found 0"));
  options = small_options();
  options.active = {1.5};
  CHECK_THROWS_WITH(rows_of(options), Catch::Contains("bench decode: active: "));
  options = small_options();
  options.model.kv_heads = 3;
  CHECK_THROWS_AS(rows_of(options), ValueError);
}

TEST_CASE("bench: decode of routed groups stands beside that of routed heads") {
  DecodeBenchOptions options = small_options();
  options.model.kv_heads = options.model.heads / 2;
  options.contexts = {8};
  options.active = {0.5};
  options.routings = {routings::kHeads, routings::kGroups, routings::kWithinGroups};
  options.routers = {routers::kLearned};
  std::vector<std::string> routings;
  for (const Row& row : rows_of(options)) {
    const auto json = nlohmann::json::parse(row.json());
    routings.push_back(json.at("routing"));
    CHECK(json.at("active") == 0.5);
  }
  CHECK(routings == std::vector<std::string>{"heads", "groups", "within_groups"});
}

TEST_CASE("bench: decode with routed keys stands beside that of routed heads") {
  DecodeBenchOptions options = small_options();
  options.active = {0.5};
  options.routed_keys = true;
  options.routers = {routers::kLearned};
  std::vector<std::string> rows;
  for (const Row& row : rows_of(options)) rows.push_back(nlohmann::json::parse(row.json()).at("routed_rows"));
  CHECK(rows == std::vector<std::string>{"queries", "queries_keys_values", "queries", "queries_keys_values"});
  options.model.kv_heads = 4;
  CHECK_THROWS_WITH(rows_of(options),
                    "bench decode: kv-heads: expected as many as heads with --routed-keys, found 4");
}

TEST_CASE("bench: a decode record as JSON is one line, and one of a table") {
  DecodeBenchOptions options = small_options();
  options.contexts = {8};
  options.active = {0.5};
  const Row row = rows_of(options).front();
  CHECK(row.json().find('\n') == row.json().size() - 1);
  CHECK(nlohmann::json::parse(row.json()).size() == 23);
  CHECK(row.table_head() ==
        "context  router      routing  active  tokens/s  ms/token  spread  /dense  attention ms  spread  "
        "/dense\n");
  CHECK(row.table_line().find("      8  learned     heads       0.5  ") == 0);
  CHECK(test::table_cells(row.table_line()) == test::table_cells(row.table_head()));
}
