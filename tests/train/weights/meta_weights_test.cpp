#include "train/weights/meta_weights.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/base/formats/torch/torch_bytes.h"
#include "train/families/families.h"
#include "train/families/language/hf/hf_config.h"
#include "train/families/language/language_run.h"
#include "train/trainer/task/stored_model.h"
#include "train/weights/locate_model.h"

namespace moh {
namespace {

using Catch::Contains;
namespace fs = std::filesystem;
namespace pickle = test::pickle;

/// A matrix of floats, row by row.
struct Matrix {
  std::string name;
  std::int64_t rows, columns;
  std::vector<float> values;
};

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// torch.save of a state dict of these matrices; those with 0 columns are vectors.
void save(const fs::path& path, const std::vector<Matrix>& tensors) {
  std::vector<std::string> storages;
  std::string items;
  for (const Matrix& m : tensors) {
    const std::string key = std::to_string(storages.size());
    const auto numel = static_cast<std::int64_t>(m.values.size());
    const std::string storage = pickle::storage(key, "FloatStorage", numel);
    items += pickle::text(m.name);
    items += m.columns == 0 ? pickle::tensor(storage, 0, {m.rows}, {1})
                            : pickle::tensor(storage, 0, {m.rows, m.columns}, {m.columns, 1});
    storages.push_back(bytes_of(m.values));
  }
  write_file(path, test::torch_zip(pickle::whole(pickle::dict({items})), storages));
}

std::vector<float> counted(std::size_t count, float from) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), from);
  return values;
}

std::vector<float> read(const WeightFile& weights, const std::string& name) {
  const WeightInfo* const info = weights.find(name);
  REQUIRE(info != nullptr);
  std::vector<float> values(info->bytes / sizeof(float));
  weights.read(*info, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

constexpr const char* kParams =
    R"({"dim": 8, "n_layers": 1, "n_heads": 2, "multiple_of": 2, "norm_eps": 1e-05, "vocab_size": -1})";

/// One of two files of a model of width 8 with 2 heads of 4, and a vocabulary of 6: file 0 counts from 0 on,
/// file 1 from 1000.
std::vector<Matrix> file_of(int number, bool embeds_by_rows) {
  const float from = static_cast<float>(number) * 1000;
  const std::string attention = "layers.0.attention.", mlp = "layers.0.feed_forward.";
  std::vector<Matrix> tensors = {embeds_by_rows ? Matrix{"tok_embeddings.weight", 3, 8, counted(24, from)}
                                                : Matrix{"tok_embeddings.weight", 6, 4, counted(24, from)},
                                 {"norm.weight", 8, 0, counted(8, 7)},
                                 {"output.weight", 3, 8, counted(24, from + 100)},
                                 {"rope.freqs", 2, 0, counted(2, 0)},
                                 {"layers.0.attention_norm.weight", 8, 0, counted(8, 5)},
                                 {"layers.0.ffn_norm.weight", 8, 0, counted(8, 6)}};
  for (const char* name : {"wq.weight", "wk.weight", "wv.weight"})
    tensors.push_back({attention + name, 4, 8, counted(32, from + 200)});
  tensors.push_back({attention + "wo.weight", 8, 4, counted(32, from + 300)});
  for (const char* name : {"w1.weight", "w3.weight"})
    tensors.push_back({mlp + name, 11, 8, counted(88, from + 400)});
  tensors.push_back({mlp + "w2.weight", 8, 11, counted(88, from + 500)});
  return tensors;
}

void write_model(const TemporaryFolder& folder, bool embeds_by_rows = false) {
  write_file(folder / "params.json", kParams);
  for (const int number : {0, 1})
    save(folder / ("consolidated.0" + std::to_string(number) + ".pth"), file_of(number, embeds_by_rows));
}

std::string refused_meta(const TemporaryFolder& folder) {
  return message_of<CheckpointError>([&] { open_weights(locate_model(folder.path())); });
}

LlamaConfig params(const std::string& text, std::int64_t vocab = 32000) {
  const TemporaryFolder folder;
  return read_meta_params(write_file(folder / "params.json", text), vocab);
}

}  // namespace

TEST_CASE("meta weights: files of tensor parallelism are one model, with transformers' names and order") {
  for (const bool by_rows : {false, true}) {
    const TemporaryFolder folder;
    write_model(folder, by_rows);
    const StoredModel stored(folder.path(), families());
    CHECK(stored.location().config == folder / "params.json");
    const WeightFile* const weights = &stored.weights();
    CHECK(weights->format() == "PyTorch, of Meta's code, in 2 files");
    CHECK(weights->tensors().size() == 12);  // no table of frequencies

    const std::vector<float> embedding = read(*weights, "model.embed_tokens.weight");
    CHECK(weights->find("model.embed_tokens.weight")->shape == Shape{6, 8});
    // Element (1, 5), in the second file where columns are divided: there (1, 1).
    CHECK(embedding[8 + 5] == (by_rows ? 13 : 1005));
    CHECK(embedding[3 * 8] == (by_rows ? 1000 : 12));
    CHECK(read(*weights, "model.norm.weight") == counted(8, 7));
    CHECK(weights->find("model.norm.weight")->shape == Shape{8});
    const std::vector<float> o = read(*weights, "model.layers.0.self_attn.o_proj.weight");
    CHECK(o[2 * 8 + 3] == 300 + 2 * 4 + 3);
    CHECK(o[2 * 8 + 4] == 1300 + 2 * 4);
    CHECK(weights->find("model.layers.0.mlp.gate_proj.weight")->shape == Shape{22, 8});
    CHECK(weights->find("model.layers.0.mlp.down_proj.weight")->shape == Shape{8, 22});

    // Rows of a head: 0, 2, 1, 3 of Meta's, in queries and keys alone. The second head is the second file's.
    const std::vector<float> q = read(*weights, "model.layers.0.self_attn.q_proj.weight");
    for (const auto& [row, first] : {std::pair{0, 200}, {1, 216}, {2, 208}, {3, 224}, {5, 1216}})
      CHECK(q[static_cast<std::size_t>(row) * 8] == static_cast<float>(first));
    CHECK(read(*weights, "model.layers.0.self_attn.k_proj.weight") == q);
    CHECK(read(*weights, "model.layers.0.self_attn.v_proj.weight")[8] == 208);

    REQUIRE(stored.config());
    const LlamaConfig& config = language_run(*stored.config()).model;
    CHECK(config.vocab_size == 6);
    CHECK(config.intermediate == 22);
    CHECK(config.head_dim == 4);
  }
}

TEST_CASE("meta weights: any part of a tensor can be read") {
  const TemporaryFolder folder;
  write_model(folder);
  const auto weights = open_weights(locate_model(folder.path()));
  for (const WeightInfo& tensor : weights->tensors()) {
    std::vector<std::byte> whole(tensor.bytes);
    weights->read(tensor, 0, whole);
    for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{3}, tensor.bytes / 2 - 1}) {
      std::vector<std::byte> part(std::min<std::uint64_t>(tensor.bytes - begin, 45));
      weights->read(tensor, begin, part);
      CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(begin)));
    }
  }
}

TEST_CASE("meta weights: files that do not fit together are refused") {
  const TemporaryFolder folder;
  write_model(folder);
  std::vector<Matrix> second = file_of(1, false);
  second.erase(second.begin() + 1);
  save(folder / "consolidated.01.pth", second);
  CHECK_THAT(refused_meta(folder),
             Contains("consolidated.01.pth, norm.weight: expected a part of this tensor, found none"));
  second = file_of(1, false);
  second[2].name = "more.weight";
  save(folder / "consolidated.01.pth", second);
  CHECK_THAT(refused_meta(folder), Contains("output.weight: expected a part of this tensor"));
  second = file_of(1, false);
  second[2].rows = 2;
  save(folder / "consolidated.01.pth", second);
  CHECK_THAT(refused_meta(folder),
             Contains("output.weight: expected F32 [3, 8], as in the first file, found F32 [2, 8]"));
  second = file_of(1, false);
  second.push_back({"layers.0.more.weight", 1, 1, {1}});
  save(folder / "consolidated.01.pth", second);
  CHECK_THAT(refused_meta(folder), Contains("layers.0.more.weight: expected tensors of all files"));

  save(folder / "consolidated.00.pth", second);
  CHECK_THAT(refused_meta(folder), Contains("layers.0.more.weight: expected tensors of a LLaMA alone"));
  write_model(folder);
  write_file(folder / "params.json", R"({"dim": 8, "n_layers": 1, "n_heads": 3})");
  CHECK_THAT(refused_meta(folder), Contains("wq.weight: expected rows of 3 heads of an even width"));
  fs::remove(folder / "params.json");
  CHECK_THAT(refused_meta(folder), Contains("lay its params.json beside consolidated.00.pth"));
}

TEST_CASE("meta weights: params.json of LLaMA 1, 2, 3 and 3.1") {
  const LlamaConfig one = params(
      R"({"dim": 4096, "multiple_of": 256, "n_heads": 32, "n_layers": 32, "norm_eps": 1e-06, "vocab_size": -1})");
  CHECK(one.intermediate == 11008);
  CHECK(one.kv_heads == 32);
  CHECK(one.max_positions == 2048);
  CHECK(one.norm_eps == 1e-6);
  const LlamaConfig two =
      params(R"({"dim": 8192, "multiple_of": 4096, "ffn_dim_multiplier": 1.3, "n_heads": 64,
      "n_kv_heads": 8, "n_layers": 80, "norm_eps": 1e-05, "vocab_size": -1})");
  CHECK(two.intermediate == 28672);
  CHECK(two.kv_heads == 8);
  CHECK(two.max_positions == 4096);
  const std::string three = R"({"dim": 4096, "n_layers": 32, "n_heads": 32, "n_kv_heads": 8,
      "vocab_size": 128256, "multiple_of": 1024, "ffn_dim_multiplier": 1.3, "norm_eps": 1e-05,
      "rope_theta": 500000.0)";
  CHECK(params(three + "}", 128256).intermediate == 14336);
  CHECK(params(three + "}", 128256).max_positions == 8192);
  const LlamaConfig three_one = params(three + R"(, "use_scaled_rope": true})", 128256);
  CHECK(three_one.rope_scaling == RopeScaling{RopeScalingKind::kLlama3, 8, 1, 4, 8192});
  CHECK(three_one.max_positions == 131072);
  const LlamaConfig small =
      params(R"({"dim": 2048, "ffn_dim_multiplier": 1.5, "multiple_of": 256, "n_heads": 32,
      "n_kv_heads": 8, "n_layers": 16, "norm_eps": 1e-05, "rope_theta": 500000.0, "use_scaled_rope": true,
      "vocab_size": 128256})",
             128256);
  CHECK(small.rope_scaling.factor == 32);
  CHECK(small.intermediate == 8192);
  CHECK_THROWS_AS(params(three + "}"), CheckpointError);  // another vocabulary than the embedding's
  CHECK_THROWS_AS(params(three + R"(, "moe": {"num_experts": 8}})", 128256), ConfigError);
  CHECK_THROWS_AS(params("{}"), CheckpointError);
  CHECK_THROWS_AS(params(R"({"dim": 8, "n_layers": 1, "n_heads": 3, "head_dim": 3})"), ConfigError);
}

}  // namespace moh
