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
  CHECK(nlohmann::json::parse(row.json()).size() == 25);
  CHECK(row.table_head() ==
        "context  router      routing  active  tokens/s  ms/token  spread  /dense  attention ms  spread  "
        "/dense\n");
  CHECK(row.table_line().find("      8  learned     heads       0.5  ") == 0);
  CHECK(test::table_cells(row.table_line()) == test::table_cells(row.table_head()));
}

TEST_CASE("bench: decode measures a configured model as it is routed, beside the dense one") {
  DecodeBenchOptions options = small_options();
  options.contexts = {100};
  options.configured = true;
  options.model.moh = {.router = moh::routers::kLearned, .num_shared = 2, .top_k = 3};
  const std::vector<Row> rows = rows_of(options);
  REQUIRE(rows.size() == 2);
  const auto dense = nlohmann::json::parse(rows[0].json()), routed = nlohmann::json::parse(rows[1].json());
  CHECK(dense["router"] == "none");
  CHECK(routed["active"] == 0.625);
  CHECK((routed["shared"] == 2 && routed["routed"] == 3));
}

// A layer has 2 x 8 heads x 8 elements of keys and values for each token, of 4 bytes; of 2 shared and 3 of
// the 6 routed heads a token reads 5 of the 8.
TEST_CASE(
    "bench: bytes of decoding are those of the cache's rows and of the weights, but for the embedding") {
  DecodeBenchOptions options = small_options();
  options.contexts = {100};
  options.configured = true;
  options.model.moh = {.router = moh::routers::kLearned, .num_shared = 2, .top_k = 3};
  const auto bytes_of = [&](std::size_t row, const char* name) {
    return nlohmann::json::parse(rows_of(options)[row].json())[name].get<double>();
  };
  const double row = 2 * 8 * 4;
  CHECK(bytes_of(0, "kv_bytes_per_token") == 8 * row);
  CHECK(bytes_of(1, "kv_bytes_per_token") == 8 * row);
  // Projections of 4 x 32 x 64, an MLP of 3 x 32 x 48, three norms of 32, 64 x 32 of logits, and a row of
  // the embedding; of a router 2 x 32 for the kinds, 2 x 32 for shared and 6 x 32 for routed heads.
  const double weights = 4 * (4 * 32 * 64 + 3 * 32 * 48 + 3 * 32 + 64 * 32 + 32),
               router = 4 * (2 * 32 + 2 * 32 + 6 * 32);
  CHECK(bytes_of(0, "read_bytes_per_token") == weights + 100 * 8 * row);
  CHECK(bytes_of(1, "read_bytes_per_token") == weights + router + 100 * 5 * row);
  options.model.moh.routed = RoutedRows::kQueriesKeysValues;
  options.model.moh.shared_window = 16;
  CHECK(bytes_of(1, "kv_bytes_per_token") == 5 * row);
  CHECK(bytes_of(1, "read_bytes_per_token") == weights + router + (2 * 16 + 3 * 50) * row);
}
