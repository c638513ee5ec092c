// Documents that share a sequence, under the mask of documents.

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "models/llm/llama.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/llm/tiny_llama.h"

using namespace moh;

namespace {

constexpr std::int64_t kLengths[] = {5, 9, 6}, kTokens = 20, kVocab = 19;

LlamaConfig tiny(RouterKey router) {
  LlamaConfig c = test::tiny_llama(router);
  c.max_positions = kTokens;
  return c;
}

Tensor starts_of_documents() {
  Tensor starts = empty({1, kTokens}, DType::kInt32);
  std::int64_t begin = 0;
  for (const std::int64_t length : kLengths) {
    std::fill_n(starts.data<std::int32_t>() + begin, length, static_cast<std::int32_t>(begin));
    begin += length;
  }
  return starts;
}

/// Tokens of which those outside of document 1 follow from `others`.
Tensor tokens_with(std::int64_t others) {
  Tensor tokens = empty({1, kTokens}, DType::kInt64);
  for (std::int64_t t = 0; t < kTokens; ++t) {
    const bool inside = t >= kLengths[0] && t < kLengths[0] + kLengths[1];
    tokens.data<std::int64_t>()[t] = (t * 7 + (inside ? 0 : others * (t + 3))) % kVocab;
  }
  return tokens;
}

/// Logits of document 1, and the gradients of a loss on its tokens alone.
std::vector<Tensor> run(const Llama& model, const Tensor& tokens, bool masked, bool reset_positions) {
  ForwardContext context;
  if (masked) context.document_starts = starts_of_documents();
  context.reset_positions = masked && reset_positions;
  const Variable logits = model.forward(tokens, context).logits;
  const Tensor targets = full({1, kTokens}, kIgnoredTarget, DType::kInt64);
  for (std::int64_t t = kLengths[0]; t + 1 < kLengths[0] + kLengths[1]; ++t)
    targets.data<std::int64_t>()[t] = tokens.data<std::int64_t>()[t + 1];
  std::vector<Tensor> results = {
      logits.value().select(0).slice(kLengths[0], kLengths[0] + kLengths[1]).clone()};
  cross_entropy(logits, targets, {.normalizer = 8}).backward();  // may write over the logits
  for (NamedParameter& p : model.parameters()) {
    results.push_back(p.variable.grad().clone());
    p.variable.zero_grad();
  }
  return results;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) {
    return x.bytes() == y.bytes() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
  });
}

}  // namespace

TEST_CASE("models: under the mask of documents no token changes logits or gradients of another document") {
  for (const RouterKey router : {routers::kNone, routers::kLearned, routers::kQueryNorm}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Llama model(tiny(router), Placement{dtype});
      model.initialise(1);
      for (const bool reset : {false, true}) {
        INFO("router " << router << ", " << dtype_name(dtype) << ", reset " << reset);
        CHECK(same_bits(run(model, tokens_with(0), true, reset), run(model, tokens_with(1), true, reset)));
        CHECK(!same_bits(run(model, tokens_with(0), false, reset), run(model, tokens_with(1), false, reset)));
      }
    }
  }
}

TEST_CASE("models: a document in a packed sequence has the logits that it has alone") {
  Llama model(tiny(routers::kLearned), Placement{DType::kFloat64});
  model.initialise(1);
  const Tensor packed = tokens_with(1), alone = empty({1, kLengths[1]}, DType::kInt64);
  std::copy_n(packed.data<std::int64_t>() + kLengths[0], kLengths[1], alone.data<std::int64_t>());
  const Tensor expected = model.forward(alone).logits.value();
  for (const bool reset : {false, true}) {  // scores depend on distances alone
    const Tensor found = run(model, packed, true, reset)[0];
    double worst = 0;
    for (std::int64_t i = 0; i < found.numel(); ++i)
      worst = std::max(worst, std::abs(found.data<double>()[i] - expected.data<double>()[i]));
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("models: packed documents have the same bits with one thread and with two") {
  Llama model(tiny(routers::kLearned), Placement{DType::kFloat32});
  model.initialise(1);
  const int threads = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> one = run(model, tokens_with(0), true, true);
  set_num_threads(2);
  const std::vector<Tensor> two = run(model, tokens_with(0), true, true);
  set_num_threads(threads);
  CHECK(same_bits(one, two));
}
