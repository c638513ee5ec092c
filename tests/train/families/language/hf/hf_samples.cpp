// hf_samples FOLDER: exports every sample model into a folder of its own, FOLDER/NAME, with random weights,
// and puts beside them, in expected.safetensors, tokens, the logits of moh, and how moh goes on from the
// tokens.
//
// hf_samples --tokenizer FOLDER: the tokenizer of models of bytes.
//
// hf_samples --compare A B: whether two config.json describe the same model.

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>

#include "core/error.h"
#include "core/random.h"
#include "models/llm/llama.h"
#include "ops/elementwise/add.h"
#include "ops/elementwise/scale.h"
#include "ops/loss/cross_entropy.h"
#include "tests/train/families/language/hf/sample_models.h"
#include "train/base/formats/safetensors.h"
#include "train/families/language/hf/hf_export.h"
#include "train/families/language/hf/hf_tokenizer.h"

using namespace moh;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBatch = 2, kLength = 11, kContinued = 8;

/// Every parameter differs from its neighbours, norm weights too.
void fill(const Llama& model, double std) {
  for (const NamedParameter& p : model.parameters()) {
    const bool is_norm = p.name.ends_with("norm.weight");
    fill_normal(p.variable.value(), initialisation_key(1, p.name), is_norm ? 1 : 0, std);
  }
}

Tensor some_tokens(std::int64_t vocab) {
  Tensor tokens = empty({kBatch, kLength}, DType::kInt64);
  for (std::int64_t i = 0; i < tokens.numel(); ++i)
    tokens.data<std::int64_t>()[i] = static_cast<std::int64_t>(
        random_below({2, 3}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(vocab)));
  return tokens;
}

/// The likeliest next token of each sequence, [B, 1].
Tensor likeliest(const Tensor& logits) {
  Tensor next = empty({logits.dim(0), 1}, DType::kInt64);
  for (std::int64_t b = 0; b < logits.dim(0); ++b) {
    const auto row = logits.select(b).span<float>();
    next.data<std::int64_t>()[b] = std::max_element(row.begin(), row.end()) - row.begin();
  }
  return next;
}

/// The tokens that follow, [B, kContinued].
Tensor continued(const Llama& model, const Tensor& tokens) {
  KvCache cache = model.make_cache(kBatch, kLength + kContinued);
  Tensor all = empty({kBatch, kContinued}, DType::kInt64);
  Tensor next = tokens;
  for (std::int64_t t = 0; t < kContinued; ++t) {
    next = likeliest(model.decode(next, cache));
    for (std::int64_t b = 0; b < kBatch; ++b)
      all.data<std::int64_t>()[b * kContinued + t] = next.data<std::int64_t>()[b];
  }
  return all;
}

/// The targets that are predicted after each token; none after the last.
Tensor targets_of(const Tensor& tokens) {
  Tensor targets = full(tokens.shape(), kIgnoredTarget, DType::kInt64);
  for (std::int64_t b = 0; b < kBatch; ++b)
    targets.select(b).slice(0, kLength - 1).copy_from(tokens.select(b).slice(1, kLength));
  return targets;
}

/// The loss of training, and its gradients as "grad.NAME".
void add_training(const Llama& model, double balance_weight, const Tensor& tokens,
                  std::vector<NamedTensor>& expected) {
  const LlamaOutput output = model.forward(tokens);
  const auto count = static_cast<double>(kBatch * (kLength - 1));
  Variable loss = cross_entropy(output.logits, targets_of(tokens), {.normalizer = count});
  std::vector<Variable> balances;
  for (const LayerRouting& layer : output.routing) {
    if (layer.balance.defined()) balances.push_back(layer.balance);
  }
  for (const Variable& balance : balances)
    loss = add(loss, scale(balance, balance_weight / static_cast<double>(balances.size())));
  loss.backward();
  expected.push_back({"loss", loss.value()});
  for (const NamedParameter& p : model.parameters()) {
    if (p.variable.requires_grad()) expected.push_back({"grad." + p.name, p.variable.grad()});
  }
}

void export_sample(const test::SampleModel& sample, const fs::path& folder) {
  fs::create_directories(folder);
  write_hf_model_files(folder, sample.model, "float32");
  const Llama model(sample.model, DType::kFloat32);
  fill(model, sample.model.init_std);
  std::vector<NamedTensor> weights;
  for (const NamedParameter& p : model.parameters()) weights.push_back({p.name, p.variable.value()});
  save_safetensors(folder / "model.safetensors", weights, {{"format", "pt"}});
  const Tensor tokens = some_tokens(sample.model.vocab_size);
  std::vector<NamedTensor> expected = {{"tokens", tokens},
                                       {"logits", model.forward(tokens).logits.value()},
                                       {"continued", continued(model, tokens)}};
  add_training(model, sample.model.moh.balance_weight, tokens, expected);
  save_safetensors(folder / "expected.safetensors", expected);
}

int run(const std::vector<std::string>& arguments) {
  if (arguments.size() == 3 && arguments[0] == "--compare")
    return read_hf_config(arguments[1]) == read_hf_config(arguments[2]) ? 0 : 1;
  if (arguments.size() == 2 && arguments[0] == "--tokenizer") {
    write_byte_tokenizer(arguments[1], 64);
    return 0;
  }
  for (const test::SampleModel& sample : test::sample_models())
    export_sample(sample, fs::path(arguments.at(0)) / sample.name);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
