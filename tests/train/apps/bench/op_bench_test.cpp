#include "train/apps/bench/op_bench.h"

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "train/apps/bench/op_cases.h"

using namespace moh;

namespace {

OpBenchOptions quick_options(std::vector<std::string> only) {
  OpBenchOptions options;
  options.megabytes = 1;
  options.only = std::move(only);
  options.repeats = 2;
  return options;
}

std::vector<Row> rows_of(const OpBenchOptions& options) {
  std::vector<Row> rows;
  run_op_bench(options, [&](const Row& row) { rows.push_back(row); });
  return rows;
}

std::vector<nlohmann::json> records_of(const OpBenchOptions& options) {
  std::vector<nlohmann::json> records;
  for (const Row& row : rows_of(options)) records.push_back(nlohmann::json::parse(row.json()));
  return records;
}

}  // namespace

TEST_CASE("bench: every streaming op runs, forward and backward, and counts the bytes it cannot do without") {
  constexpr double kBytes = 1 << 20;
  std::set<std::string_view> names;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const StreamingFamily& family : streaming_families()) {
      CAPTURE(family.op);
      names.insert(family.op);
      const StreamingCase op = family.make(dtype, static_cast<std::int64_t>(kBytes));
      const std::vector<Variable> results = op.forward();
      CHECK(op.forward_bytes > 0);
      if (op.backward_bytes > 0) {
        REQUIRE_FALSE(results.empty());
        backward(results, StreamingCase::seeds_of(results));
      }
      if (family.op == "rms_norm") {
        CHECK(op.forward_bytes == 2 * kBytes);
        CHECK(op.backward_bytes == 3 * kBytes);
      }
      if (family.op == "swiglu") CHECK(op.backward_bytes == 2.5 * kBytes);  // of gates and up together
      if (family.op == "cross_entropy") CHECK(op.forward_bytes == kBytes);
      if (family.op == "add_rms_norm") CHECK(op.backward_bytes == 4 * kBytes);
      if (family.op == "gate_residual") CHECK(op.forward_bytes == 3 * kBytes);
      if (family.op == "append_to_cache") CHECK(op.forward_bytes == 4 * kBytes);
      if (family.op == "attention_decode") CHECK(op.forward_bytes == 2 * kBytes);
      if (family.op == "ema") CHECK(op.forward_bytes == (dtype == DType::kFloat32 ? 3 : 5) * kBytes);
      // The table has 256 rows of 1024.
      if (family.op == "embedding_of_text")
        CHECK(op.backward_bytes == (dtype == DType::kFloat32 ? 2 : 1.5) * kBytes);
      // Per token 18 logits, 14 probabilities, 6 chosen, 16 gates and their selection; 16 gates are 64 bytes.
      if (family.op == "route_heads") {
        CHECK(op.forward_bytes == (4 * (18 + 14 + 6 + 16) + 16) * kBytes / 64);
        CHECK(op.backward_bytes == 4 * (2 * 18 + 6 + 16) * kBytes / 64);
      }
      // Gradient, moments and master copy are twice as large as a bfloat16 value.
      if (family.op == "adamw") CHECK(op.forward_bytes == (dtype == DType::kFloat32 ? 7 : 15) * kBytes);
    }
  }
  CHECK(names.size() == streaming_families().size());
}

TEST_CASE("bench: a linear layer is measured in the three layouts of training, after the ceilings") {
  const std::vector<nlohmann::json> records = records_of(quick_options({"DeiT-S"}));
  constexpr std::size_t kCeilings = 4;
  REQUIRE(records.size() == kCeilings + 4 * 3);
  CHECK(records[0]["op"] == "copy");
  CHECK(records[0]["share"] == 1.0);
  CHECK(records[1]["op"] == "memcpy");
  CHECK(records[1]["ceiling"] == records[0]["rate"]);
  CHECK(records[2]["op"] == "fma");
  CHECK(records[2]["share"] == 1.0);
  CHECK(records[3]["ceiling"] == records[2]["rate"]);
  for (std::size_t i = kCeilings; i < records.size(); ++i) {
    const nlohmann::json& r = records[i];
    CHECK(r["op"] == "matmul");
    CHECK(r["pass"] == std::vector<std::string>{"forward NT", "input NN", "weight TN"}[(i - kCeilings) % 3]);
    CHECK(r["unit"] == "GFLOP/s");
    CHECK(r["ceiling"] > 0.2 * records[2]["rate"].get<double>());  // measured again, on a busy host
    CHECK(r["ms"] > 0);
  }
  const auto first = records.begin() + kCeilings;
  CHECK(first[0]["model"] == "DeiT-S qkv");
  CHECK(first[0]["shape"] == "1576x1152x384");
  CHECK(first[1]["shape"] == "1576x384x1152");
  CHECK(first[2]["shape"] == "1152x384x1576");
  CHECK(first[0]["rate"].get<double>() ==
        Approx(2.0 * 1576 * 1152 * 384 / first[0]["ms"].get<double>() * 1e-6));
}

TEST_CASE("bench: products are those of the published models") {
  const std::vector<LinearShape> shapes = linear_shapes();
  const auto has = [&](const std::string& model, std::int64_t tokens, std::int64_t out, std::int64_t in) {
    return std::ranges::count_if(shapes, [&](const LinearShape& s) {
             return s.model == model && s.tokens == tokens && s.out == out && s.in == in;
           }) == 1;
  };
  CHECK(has("LLM-S mlp up", 2048, 2048, 768));
  CHECK(has("LLM-B mlp down", 2048, 1536, 4096));
  CHECK(has("LLM-B vocabulary", 2048, 65536, 1536));
  CHECK(has("DeiT-B mlp up", 1576, 3072, 768));
  CHECK(has("DiT-XL qkv", 2048, 3456, 1152));
}

TEST_CASE("bench: convolutions are those of the published models, whose layers fit together") {
  std::map<std::string, Convolution> all;
  for (const Convolution& c : convolutions()) CHECK(all.emplace(c.model, c).second);
  const auto side_after = [](const Convolution& c) {
    return (c.side + 2 * c.options.padding.y - c.kernel) / c.options.stride.y + 1;
  };
  constexpr std::array<std::int64_t, 4> kDims = {72, 144, 288, 576}, kHidden = {384, 768, 768, 1536};
  std::int64_t side = 224, channels = 3;
  for (std::size_t stage = 0; stage < 4; ++stage) {
    const Convolution& patches = all.at("TransNeXt-T patches " + std::to_string(stage + 1));
    const Convolution& depthwise = all.at("TransNeXt-T depthwise " + std::to_string(stage + 1));
    CHECK(patches.side == side);
    CHECK(patches.channels == channels);
    CHECK(patches.is_first == (stage == 0));
    side = side_after(patches);
    channels = kDims[stage];
    CHECK(patches.outputs == channels);
    CHECK(depthwise.side == side);
    CHECK(side_after(depthwise) == side);
    CHECK(depthwise.channels == kHidden[stage]);
    CHECK(depthwise.weight() == Shape{kHidden[stage], 1, 3, 3});
  }
  CHECK(side == 7);
  for (const int level : {1, 2, 3}) {
    const Convolution& block = all.at("VAE block " + std::to_string(level));
    const Convolution& down = all.at("VAE downsample " + std::to_string(level));
    CHECK(down.images() == block.images());
    CHECK(side_after(down) == all.at("VAE block " + std::to_string(level + 1)).side);
  }
  CHECK(all.at("VAE block 4").images() == Shape{1, 32, 32, 512});
}

TEST_CASE("bench: ops write one JSON object a line, and a table") {
  const std::vector<Row> rows = rows_of(quick_options({"swiglu"}));
  REQUIRE(rows.size() == 6);
  const std::string json = rows.back().json();
  CHECK(json.find('\n') == json.size() - 1);
  const auto object = nlohmann::json::parse(json);
  CHECK(object.size() == 14);
  CHECK(object["op"] == "swiglu");
  CHECK(object["pass"] == "backward");
  CHECK(object["shape"] == "[256, 1024]");
  CHECK(object["share"].get<double>() ==
        Approx(object["rate"].get<double>() / object["ceiling"].get<double>()));
  CHECK(rows.front().table_head() ==
        "op                   shape                     pass                ms  spread      rate             "
        "share  model\n");
  const std::string ceiling = rows.front().table_line(), line = rows.back().table_line();
  CHECK(ceiling.find("copy                 1 MiB") == 0);
  CHECK(ceiling.find(" GB/s       100.0%\n") == ceiling.size() - 19);
  CHECK(ceiling.find_first_not_of(' ', 59) > 75);  // no times
  CHECK(line.find("swiglu               [256, 1024]               backward  ") == 0);
  CHECK(line.size() == ceiling.size());
}

TEST_CASE("bench: ops refuse options out of range and unknown names") {
  const auto refuses = [](auto change) {
    OpBenchOptions options = quick_options({"add"});
    change(options);
    CHECK_THROWS_AS(records_of(options), ValueError);
  };
  refuses([](OpBenchOptions& o) { o.only = {"rms_norms"}; });
  refuses([](OpBenchOptions& o) { o.megabytes = 0; });
  refuses([](OpBenchOptions& o) { o.repeats = 0; });
  refuses([](OpBenchOptions& o) { o.seconds = 0; });
  refuses([](OpBenchOptions& o) { o.dtype = DType::kInt32; });
}
