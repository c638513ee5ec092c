#include "train/apps/bench/module_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "tests/support/table_cells.h"

using namespace moh;

namespace {

ModuleBenchOptions small_module() {
  ModuleBenchOptions options;
  options.tokens = {16, 160};  // below and above where the chosen heads are projected alone
  options.width = 40;
  options.heads = 4;
  options.head_dim = 32;
  options.causal = {false, true};
  options.warmups = 1;
  options.repeats = 3;
  return options;
}

std::vector<Row> rows_of(const ModuleBenchOptions& options) {
  std::vector<Row> rows;
  run_module_bench(options, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

}  // namespace

TEST_CASE("bench: module reports every combination, dense first") {
  const std::vector<Row> rows = rows_of(small_module());
  REQUIRE(rows.size() == 2 * 2 * 3);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto r = nlohmann::json::parse(rows[i].json());
    CHECK(r["tokens"] == (i < 6 ? 16 : 160));
    CHECK(r["causal"] == (i / 3 % 2 == 1));
    CHECK(r["active"] == std::vector<double>{1.0, 0.75, 0.5}[i % 3]);
    CHECK(r["op"] == (i % 3 == 0 ? "attention_module" : "moh_attention_module"));
    CHECK(r["forward_ms"] > 0.0);
    CHECK(r["forward_backward_ms"] > r["forward_ms"]);
    CHECK((r["ideal_forward_saving"] > 1.0) == (i % 3 > 0));
    if (i % 3 == 0) CHECK(r["forward_backward_ratio"] == 1.0);
  }
}

TEST_CASE("bench: the ideal saving of the module counts what the active heads need") {
  ModuleBenchOptions o;
  o.width = 8;
  o.heads = 4;
  o.head_dim = 2;
  // Keys and values 2 * 4 * 2 * 8, queries and output 2 * a * 2 * 8, scores and values 2 * a * 2 * 10.
  CHECK(attention_module_multiplications(o, 10, 4, std::nullopt) == 128 + 128 + 160);
  CHECK(attention_module_multiplications(o, 10, 2, RoutedRows::kQueries) == 128 + 64 + 80 + 6 * 8);
  // Keys and values of two heads, each of which sees half of the tokens.
  CHECK(attention_module_multiplications(o, 10, 2, RoutedRows::kQueriesKeysValues) == 64 + 64 + 40 + 6 * 8);
  o.kv_heads = 2;
  CHECK(attention_module_multiplications(o, 10, 2, RoutedRows::kQueries) == 64 + 64 + 80 + 6 * 8);
  // Two shared heads see all tokens, each of the 14 others 5/14 of them.
  o.heads = o.kv_heads = 16;
  CHECK(attention_module_multiplications(o, 10, 7, RoutedRows::kQueriesKeysValues) ==
        Approx(4 * 7 * 2 * 8 + 2 * (2 + 25.0 / 14) * 2 * 10 + 18 * 8));
}

TEST_CASE("bench: a module inside KV groups stands beside lists where the heads are the same of each") {
  ModuleBenchOptions options = small_module();
  options.tokens = {16};
  options.causal = {true};
  options.kv_heads = 2;
  options.within_groups = true;
  std::vector<std::string> forms;
  for (const Row& row : rows_of(options)) {
    const auto r = nlohmann::json::parse(row.json());
    forms.push_back(r["op"].get<std::string>() + " " +
                    std::to_string(r["active"].get<double>()).substr(0, 4));
    CHECK(test::table_cells(row.table_line()) == test::table_cells(row.table_head()));
  }
  CHECK(forms == std::vector<std::string>{"attention_module 1.00", "moh_attention_module 0.75",
                                          "moh_attention_module 0.50", "moh_within_groups_module 0.50"});
  options.causal = {true, false};
  CHECK_THROWS_WITH(rows_of(options),
                    "bench module: within-groups: expected a causal mask (--causal, not --full), found 1");
  options.kv_heads = 0;
  CHECK_THROWS_WITH(rows_of(options),
                    "bench module: kv-heads: expected fewer than the 4 heads with --within-groups, found 4");
}

TEST_CASE("bench: a module with routed keys stands beside lists") {
  ModuleBenchOptions options = small_module();
  options.tokens = {16};
  options.causal = {true};
  options.active = {1.0, 0.5};
  options.routed_keys = true;
  const std::vector<Row> rows = rows_of(options);
  REQUIRE(rows.size() == 3);
  const auto listed = nlohmann::json::parse(rows[1].json()), routed = nlohmann::json::parse(rows[2].json());
  CHECK(listed["op"] == "moh_attention_module");
  CHECK(routed["op"] == "moh_routed_keys_module");
  CHECK(routed["active"] == 0.5);
  CHECK(routed["ideal_forward_saving"] > listed["ideal_forward_saving"]);
  CHECK(rows[2].table_line().find("    16  causal  packed     0.5") == 0);
  options.causal = {true, false};
  CHECK_THROWS_WITH(rows_of(options),
                    "bench module: routed-keys: expected a causal mask (--causal, not --full), found 1");
  options.kv_heads = 2;
  CHECK_THROWS_WITH(rows_of(options),
                    "bench module: kv-heads: expected as many as heads with --routed-keys, found 2");
}

TEST_CASE("bench: module refuses options that are out of range, naming them") {
  const auto message = [](auto change) {
    ModuleBenchOptions options = small_module();
    change(options);
    try {
      rows_of(options);
    } catch (const ValueError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(message([](auto& o) { o.width = 0; }), Catch::Contains("width"));
  CHECK_THAT(message([](auto& o) { o.head_dim = 33; }), Catch::Contains("head-dim"));
  CHECK_THAT(message([](auto& o) { o.active = {1.5}; }), Catch::Contains("active"));
  CHECK_THAT(message([](auto& o) { o.tokens = {0}; }), Catch::Contains("tokens"));
  CHECK_THAT(message([](auto& o) { o.repeats = 0; }), Catch::Contains("repeats"));
}

TEST_CASE("bench: a module's line of JSON has its fields") {
  ModuleBenchOptions options = small_module();
  options.tokens = {16};
  const Row row = rows_of(options).back();
  const nlohmann::json line = nlohmann::json::parse(row.json());
  for (const char* field : {"op",
                            "device",
                            "dtype",
                            "isa",
                            "batch",
                            "tokens",
                            "width",
                            "heads",
                            "head_dim",
                            "causal",
                            "active",
                            "forward_ms",
                            "forward_backward_ms",
                            "forward_spread",
                            "spread",
                            "forward_ratio",
                            "forward_backward_ratio",
                            "ideal_forward_saving",
                            "achieved_of_ideal",
                            "kv_heads"}) {
    CHECK(line.contains(field));
  }
  CHECK(line.size() == 20);
  CHECK(line["achieved_of_ideal"].get<double>() ==
        Approx(1.0 / line["forward_ratio"].get<double>() / line["ideal_forward_saving"].get<double>()));
  CHECK(row.table_head() ==
        "tokens  mask    active  forward ms  fwd+bwd ms  spread  fwd/dense  fwd+bwd/dense  ideal fwd  of "
        "ideal\n");
  CHECK(row.table_line().find("    16  causal     0.5") == 0);
  CHECK(test::table_cells(row.table_line()) == test::table_cells(row.table_head()));
}
