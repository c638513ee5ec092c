#include "train/apps/bench/attention_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/error.h"
#include "tests/support/table_cells.h"
#include "train/base/math/statistics.h"

using namespace moh;

namespace {

AttentionBenchOptions small_attention() {
  AttentionBenchOptions options;
  options.tokens = {16, 40};
  options.heads = 8;
  options.kv_heads = 4;
  options.head_dim = 8;
  options.causal = {true, false};
  options.active = {1.0, 0.75, 0.5};
  options.warmups = 1;
  options.repeats = 3;
  return options;
}

std::vector<Row> rows_of(const AttentionBenchOptions& options) {
  std::vector<Row> rows;
  run_attention_bench(options, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

std::vector<nlohmann::json> records_of(const AttentionBenchOptions& options) {
  std::vector<nlohmann::json> records;
  for (const Row& row : rows_of(options)) records.push_back(nlohmann::json::parse(row.json()));
  return records;
}

}  // namespace

TEST_CASE("bench: attention reports every combination, dense first") {
  const std::vector<nlohmann::json> records = records_of(small_attention());
  REQUIRE(records.size() == 2 * 2 * 3);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const nlohmann::json& r = records[i];
    CHECK(r["tokens"] == (i < 6 ? 16 : 40));
    CHECK(r["causal"] == (i / 3 % 2 == 0));
    CHECK(r["active"] == std::vector<double>{1.0, 0.75, 0.5}[i % 3]);
    CHECK(r["pairs_share"] == r["active"]);  // of 8 heads, 6 and 4 are whole numbers
    CHECK(r["op"] == (i % 3 == 0 ? "attention" : "head_sparse_attention"));
    CHECK(r["forward_ms"] > 0.0);
    CHECK(r["forward_backward_ms"] > r["forward_ms"]);
    CHECK(r["spread"] >= 0.0);
    if (i % 3 == 0) CHECK(r["forward_backward_ratio"] == 1.0);
    // 14 d operations of every pair that is computed.
    const double t = r["tokens"], pairs = 8 * (r["causal"] ? t * (t + 1) / 2 : t * t), share = r["active"];
    const double ms = r["forward_backward_ms"];
    CHECK(r["forward_backward_gflops"].get<double>() == Approx(14 * 8 * pairs * share / ms * 1e-6));
    CHECK(r["forward_megaflops"].get<double>() == Approx(4 * 8 * pairs * share * 1e-6));
    // In float32 the output, and the gradients of 8 query heads and of keys and values of 4, at the same
    // time.
    CHECK(r["peak_bytes"].get<double>() >= (8 + 8 + 2 * 4) * 8 * t * 4);
  }
}

TEST_CASE("bench: attention by lists of all heads stands beside dense attention when asked for") {
  AttentionBenchOptions options = small_attention();
  options.tokens = {8};
  options.causal = {true};
  options.listed = true;
  const std::vector<Row> rows = rows_of(options);
  REQUIRE(rows.size() == 4);
  const auto record = [&](std::size_t i) { return nlohmann::json::parse(rows[i].json()); };
  CHECK(record(0)["op"] == "attention");
  CHECK(record(1)["op"] == "head_sparse_attention");
  CHECK(record(1)["active"] == 1.0);
  CHECK(record(1)["pairs_share"] == 1.0);
  CHECK(record(2)["active"] == 0.75);
  CHECK(rows[0].table_line().find("     8  causal  dense        1  1.000") == 0);
  CHECK(rows[1].table_line().find("     8  causal  listed       1  1.000") == 0);
}

TEST_CASE("bench: attention inside KV groups stands beside lists where the heads are the same of each") {
  AttentionBenchOptions options = small_attention();
  options.tokens = {16};
  options.causal = {true};
  options.active = {1.0, 0.75, 0.5};
  options.within_groups = true;
  const std::vector<Row> rows = rows_of(options);
  REQUIRE(rows.size() == 4);  // 6 of 8 heads are not the same of each of 4 groups
  const auto last = nlohmann::json::parse(rows[3].json());
  CHECK(last["op"] == "attention_within_groups");
  CHECK(last["pairs_share"] == 0.5);
  CHECK(rows[3].table_line().find("    16  causal  slots      0.5  0.500") == 0);
  options.kv_heads = 0;
  CHECK_THROWS_WITH(
      rows_of(options),
      "bench attention: kv-heads: expected fewer than the 8 heads with --within-groups, found 8");
}

TEST_CASE("bench: attention with routed keys stands beside lists, at its share of the pairs") {
  AttentionBenchOptions options = small_attention();
  options.tokens = {16};
  options.kv_heads = 8;
  options.causal = {true};
  options.active = {1.0, 0.5};
  options.routed_keys = true;
  const std::vector<Row> rows = rows_of(options);
  REQUIRE(rows.size() == 3);
  const auto last = nlohmann::json::parse(rows[2].json());
  CHECK(last["op"] == "attention_of_routed_keys");
  CHECK(last["active"] == 0.5);
  CHECK(last["pairs_share"].get<double>() == Approx((1 + 9.0 / 7) / 8));  // 1 shared, 3 of 7 routed
  CHECK(rows[2].table_line().find("    16  causal  packed     0.5  0.286") == 0);
  options.causal = {true, false};
  CHECK_THROWS_WITH(rows_of(options),
                    Catch::Contains("bench attention: routed-keys: expected a causal mask"));
  options.causal = {true};
  options.window = 8;
  CHECK_THROWS_WITH(rows_of(options),
                    "bench attention: routed-keys: expected neither --window nor --pooled, found 1");
  options.kv_heads = 4;
  CHECK_THROWS_WITH(rows_of(options),
                    "bench attention: kv-heads: expected as many as heads with --routed-keys, found 4");
}

TEST_CASE("bench: attention rounds the number of heads and leaves out lines that were not asked for") {
  AttentionBenchOptions options = small_attention();
  options.tokens = {8};
  options.causal = {true};
  options.active = {0.3, 0.01};
  const std::vector<nlohmann::json> records = records_of(options);
  REQUIRE(records.size() == 2);
  CHECK(records[0]["pairs_share"] == 0.25);
  CHECK(records[1]["pairs_share"] == 0.125);
}

TEST_CASE("bench: attention writes one JSON object a line, and a table") {
  AttentionBenchOptions options = small_attention();
  options.tokens = {1024};
  options.causal = {true};
  options.active = {1.0};
  const Row row = rows_of(options).front();
  const std::string text = row.json();
  CHECK(text.find('\n') == text.size() - 1);
  const auto line = nlohmann::json::parse(text);
  for (const char* key : {"op",
                          "device",
                          "dtype",
                          "isa",
                          "batch",
                          "tokens",
                          "heads",
                          "kv_heads",
                          "head_dim",
                          "causal",
                          "active",
                          "pairs_share",
                          "forward_ms",
                          "forward_backward_ms",
                          "spread",
                          "forward_ratio",
                          "forward_backward_ratio",
                          "forward_megaflops",
                          "peak_bytes",
                          "forward_gflops",
                          "forward_backward_gflops"}) {
    CHECK(line.contains(key));
  }
  CHECK(line.size() == 21);
  CHECK(line["tokens"] == 1024);
  CHECK(line["causal"] == true);
  CHECK(line["device"] == "cpu");
  CHECK(line["dtype"] == "float32");
  CHECK(row.table_head() ==
        "tokens  mask    form    active  pairs   forward ms  fwd+bwd ms  spread  fwd/dense  fwd+bwd/dense  "
        "GFLOP/s\n");
  CHECK(row.table_line().find("  1024  causal  dense        1  1.000") == 0);
  CHECK(test::table_cells(row.table_line()) == test::table_cells(row.table_head()));
}

TEST_CASE("bench: attention has as many KV heads as heads, unless their number is given") {
  AttentionBenchOptions options;
  options.tokens = {8};
  options.heads = 6;
  options.head_dim = 8;
  options.active = {1.0};
  options.warmups = options.repeats = 1;
  CHECK(records_of(options).front()["kv_heads"] == 6);
}

TEST_CASE("bench: attention with pooled tokens is aggregated attention") {
  AttentionBenchOptions options = small_attention();
  options.kv_heads = 0;
  options.causal = {false};
  options.tokens = {16, 36};
  options.pooled = 4;
  const std::vector<nlohmann::json> records = records_of(options);
  REQUIRE(records.size() == 2 * 3);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const nlohmann::json& r = records[i];
    CHECK(r["op"] == "aggregated_attention");
    CHECK(r["pooled"] == 4);
    CHECK(r["active"] == std::vector<double>{1.0, 0.75, 0.5}[i % 3]);
    const double tokens = r["tokens"], share = r["active"], ms = r["forward_backward_ms"];
    CHECK(r["forward_backward_gflops"].get<double>() == Approx(14 * 8 * tokens * 8 * 13 * share / ms * 1e-6));
  }
  options.tokens = {16, 35};
  CHECK_THROWS_WITH(records_of(options),
                    "bench attention: tokens: expected a square with --pooled, and no fewer, found 35");
  options.tokens = {16};
  options.pooled = 17;
  CHECK_THROWS_AS(records_of(options), ValueError);
  options.pooled = 4;
  options.causal = {true};
  CHECK_THROWS_AS(records_of(options), ValueError);
}

TEST_CASE("bench: attention refuses options out of range") {
  const auto refuses = [](auto change) {
    AttentionBenchOptions options = small_attention();
    change(options);
    CHECK_THROWS_AS(records_of(options), ValueError);
  };
  refuses([](AttentionBenchOptions& o) { o.active = {0.0}; });
  refuses([](AttentionBenchOptions& o) { o.active = {1.5}; });
  refuses([](AttentionBenchOptions& o) { o.tokens = {0}; });
  refuses([](AttentionBenchOptions& o) { o.kv_heads = 3; });
  refuses([](AttentionBenchOptions& o) { o.head_dim = 257; });
  refuses([](AttentionBenchOptions& o) { o.batch = 0; });
  refuses([](AttentionBenchOptions& o) { o.repeats = 0; });
  refuses([](AttentionBenchOptions& o) { o.dtype = DType::kInt32; });
}

TEST_CASE("bench: quantiles interpolate") {
  CHECK(median({3.0, 1.0, 2.0}) == 2.0);
  CHECK(median({4.0, 1.0, 2.0, 3.0}) == 2.5);
  CHECK(quantile({0.0, 10.0}, 0.1) == Approx(1.0));
  CHECK(quantile({7.0}, 0.9) == 7.0);
  CHECK(relative_spread({1.0, 2.0, 3.0}) == Approx(0.8));
}
