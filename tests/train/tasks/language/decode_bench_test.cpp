#include "train/tasks/language/decode_bench.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/error.h"

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

std::vector<DecodeBenchRecord> records_of(const DecodeBenchOptions& options) {
  std::vector<DecodeBenchRecord> records;
  run_decode_bench(options, [&](const DecodeBenchRecord& record) { records.push_back(record); });
  return records;
}

}  // namespace

TEST_CASE("bench: decode reports every context, share and router, dense first") {
  const std::vector<DecodeBenchRecord> records = records_of(small_options());
  REQUIRE(records.size() == 2 * 5);
  for (std::size_t i = 0; i < records.size(); ++i) {
    const DecodeBenchRecord& r = records[i];
    CHECK(r.context == (i < 5 ? 8 : 700));
    CHECK(r.router ==
          std::vector<std::string>{"none", "learned", "query_norm", "learned", "query_norm"}[i % 5]);
    CHECK(r.active == std::vector<double>{1.0, 0.75, 0.75, 0.5, 0.5}[i % 5]);
    if (i % 5 > 0) CHECK(r.shared == 1);
    CHECK(r.tokens_per_s == Approx(1e3 / r.token_ms));
    CHECK(r.attention_ms > 0);
    if (i % 5 == 0) CHECK((r.ratio == 1.0 && r.attention_ratio == 1.0));
  }
}

TEST_CASE("bench: decode refuses options that are out of range, naming them") {
  DecodeBenchOptions options = small_options();
  options.contexts = {0};
  CHECK_THROWS_WITH(records_of(options),
                    Catch::Contains("bench decode: context: expected 1 or more, found 0"));
  options = small_options();
  options.active = {1.5};
  CHECK_THROWS_WITH(records_of(options), Catch::Contains("bench decode: active: "));
  options = small_options();
  options.model.kv_heads = 3;
  CHECK_THROWS_AS(records_of(options), ValueError);
}

TEST_CASE("bench: a decode record as JSON is one line") {
  DecodeBenchRecord record;
  record.router = "learned";
  record.attention_ratio = 0.5;
  std::ostringstream out;
  write_json_line(out, record);
  CHECK(out.str().find('\n') == out.str().size() - 1);
  CHECK(nlohmann::json::parse(out.str())["attention_ratio"] == 0.5);
}
