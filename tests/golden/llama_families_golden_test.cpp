// llama_family: a model of a class of transformers beside its plain LLaMA, with config.json as it wrote it.

#include <algorithm>

#include "models/llm/llama.h"
#include "tests/golden/golden_kinds.h"
#include "tests/golden/llama_golden.h"
#include "tests/support/temporary_folder.h"
#include "train/families/language/hf/hf_export.h"

using namespace moh;
using namespace moh::test;

namespace {

LlamaConfig described_model(const GoldenCase& golden) {
  const TemporaryFolder folder;
  return read_hf_config(write_file(folder / "config.json", golden.config().dump()));
}

/// The tokens that follow, the likeliest at each step, [B, count].
Tensor generated(const Llama& model, const Tensor& tokens, std::int64_t count) {
  const std::int64_t batch = tokens.dim(0);
  KvCache cache = model.make_cache(batch, tokens.dim(1) + count);
  Tensor all = empty({batch, count}, DType::kInt64);
  Tensor next = tokens;
  for (std::int64_t t = 0; t < count; ++t) {
    const Tensor logits = model.decode(next, cache);
    next = empty({batch, 1}, DType::kInt64);
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto row = logits.select(b).span<float>().subspan(1);  // the reference draws no end of text, 0
      const std::int64_t id = std::ranges::max_element(row) - row.begin() + 1;
      next.data<std::int64_t>()[b] = all.data<std::int64_t>()[b * count + t] = id;
    }
  }
  return all;
}

}  // namespace

GOLDEN_KIND(llama_family) {
  LlamaConfig config = described_model(golden);
  const Tensor tokens = golden.tensor("in.input_ids");
  for (const RecomputeLevel level : kRecomputeLevels) {
    config.recompute = level;
    const Llama model(config, DType::kFloat32);
    golden.load(model, "param.");
    const Variable logits = model.forward(tokens).logits, loss = next_token_loss(logits, tokens);
    golden.check("out.logits", logits.value());
    golden.check("out.ce_loss", loss.value());
    loss.backward();
    golden.check_gradients(model, "grad.param.");
    golden.check("out.generated", generated(model, tokens, golden.tensor("out.generated").dim(1)));
  }
}

TEST_CASE("golden: families of LLaMA's kin are exported as what they came from", "[shared]") {
  for_each_golden("llama_family", [](const GoldenCase& golden) {
    const TemporaryFolder folder;
    const LlamaConfig config = described_model(golden);
    write_hf_model_files(folder.path(), config, "float32");
    CHECK(read_hf_config(folder / "config.json") == config);
    const auto written = nlohmann::json::parse(read_file(folder / "config.json"));
    // Without a window, Mistral is a LLaMA.
    const std::string type = golden.config().at("model_type");
    CHECK(written.at("model_type") == (type == "mistral" ? "llama" : type));
    for (const char* key : {"max_position_embeddings", "head_dim", "num_key_value_heads", "rms_norm_eps",
                            "attention_bias", "mlp_bias", "tie_word_embeddings"}) {
      INFO(key);
      const bool is_given = golden.config().contains(key) && !golden.config().at(key).is_null();
      if (is_given && written.contains(key)) CHECK(written.at(key) == golden.config().at(key));
    }
  });
}
