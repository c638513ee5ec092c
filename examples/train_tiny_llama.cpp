// A tiny LLaMA, dense or Mixture-of-Head, learns the bytes of a text, and continues it; without a
// configuration file.
//
//     train_tiny_llama TEXT [dense|moh] [WEIGHTS.safetensors]

#include <moh/moh.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace moh;

constexpr std::int64_t kBatch = 8, kContext = 64, kSteps = 300;

LlamaConfig tiny_llama(bool routed) {
  LlamaConfig config;
  config.vocab_size = 256;
  config.layers = 2;
  config.hidden = 96;
  config.intermediate = 256;
  config.heads = 6;
  config.max_positions = 2 * kContext;
  if (routed) {  // half of the heads: one that all tokens share, and 2 of the other 5, token by token
    config.moh.router = routers::kLearned;
    config.moh.num_shared = 1;
    config.moh.top_k = 2;
  }
  return config;
}

struct Batch {
  Tensor tokens, targets;  // [B, T]: bytes, and those that follow them
};

Batch random_batch(std::string_view text, std::uint64_t step) {
  Batch batch{empty({kBatch, kContext}, DType::kInt64), empty({kBatch, kContext}, DType::kInt64)};
  for (std::int64_t b = 0; b < kBatch; ++b) {
    const std::uint64_t starts = text.size() - kContext;
    const std::uint64_t start =
        random_below({.seed = 1, .stream = step}, static_cast<std::uint64_t>(b), starts);
    for (std::size_t t = 0; t < kContext; ++t) {
      batch.tokens.select(b).span<std::int64_t>()[t] = static_cast<unsigned char>(text[start + t]);
      batch.targets.select(b).span<std::int64_t>()[t] = static_cast<unsigned char>(text[start + t + 1]);
    }
  }
  return batch;
}

/// The loss plus the mean of the routers' load-balance losses.
Variable with_balance(Variable loss, const std::vector<LayerRouting>& routing, double weight) {
  for (const LayerRouting& layer : routing)
    loss = add(loss, scale(layer.balance, weight / static_cast<double>(routing.size())));
  return loss;
}

void train(Llama& model, std::string_view text) {
  AdamW optimizer(model, {.betas = {0.9, 0.99}});
  const LrSchedule rates{.peak = 3e-3, .minimum = 3e-4, .warmup_steps = 20, .decay_steps = kSteps};
  for (std::int64_t step = 0; step < kSteps; ++step) {
    const Batch batch = random_batch(text, static_cast<std::uint64_t>(step));
    const LlamaOutput out = model.forward(batch.tokens, {.training = true});
    const Variable loss = cross_entropy(out.logits, batch.targets, {.normalizer = kBatch * kContext});
    if (step % 50 == 0 || step + 1 == kSteps)
      std::printf("step %3d  loss %.4f\n", static_cast<int>(step), loss.value().item());
    with_balance(loss, out.routing, model.config().moh.balance_weight).backward();
    optimizer.set_learning_rate(rates.at(step + 1));
    optimizer.step(loss);
    optimizer.zero_grad();
  }
}

/// The prompt and what the model takes for the most probable continuation, up to the end of the line.
std::string continue_line(const Llama& model, std::string line) {
  const NoGrad no_grad;
  KvCache cache = model.make_cache(/*batch=*/1, model.config().max_positions);
  std::vector<std::int64_t> next(line.begin(), line.end());
  while (cache.length() + std::ssize(next) <= model.config().max_positions) {
    const Tensor logits = model.decode(tensor_of<std::int64_t>({1, std::ssize(next)}, next), cache);
    next = {static_cast<std::int64_t>(top1(logits).item())};
    if (next[0] == '\n') break;
    line += static_cast<char>(next[0]);
  }
  return line;
}

void save(const Llama& model, const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& p : model.parameters()) tensors.push_back({p.name, p.variable.value()});
  save_safetensors(path, tensors);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2) throw ValueError("usage: train_tiny_llama TEXT [dense|moh] [WEIGHTS.safetensors]");
  std::ifstream file(argv[1], std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (text.size() <= kContext) throw ValueError(std::string(argv[1]) + ": not a text of more than 64 bytes");

  Llama model(tiny_llama(argc < 3 || std::string_view(argv[2]) == "moh"), DType::kFloat32);
  model.initialise(/*seed=*/1);
  train(model, text);
  std::printf("%s\n", continue_line(model, text.substr(text.size() / 2, 32)).c_str());
  if (argc > 3) save(model, argv[3]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
