// One Mixture-of-Head attention layer learns to recall. A sequence tells 8 pairs of a key and a value, and
// then asks for 8 keys: at each question the layer has to look up the value that was told with the key. Of 8
// heads one is shared by all tokens, and a router chooses 3 of the other 7 for each token; the program shows
// how often it chooses which.
//
//     moh_attention

#include <moh/moh.h>

#include <cstdint>
#include <cstdio>

namespace {

using namespace moh;

constexpr std::int64_t kKeys = 8, kValues = 8, kBatch = 32, kTokens = 2 * kKeys, kWidth = 64;

struct Batch {
  Tensor keys, values;  // [B, T], what each token says; the value kValues is the question mark
  Tensor answers;       // [B, T], the value to recall, or kIgnoredTarget where nothing is asked
};

/// Keys are told in order, and asked for at random; values are random in each sequence.
Batch recall_batch(std::uint64_t step) {
  Batch batch{empty({kBatch, kTokens}, DType::kInt64), empty({kBatch, kTokens}, DType::kInt64),
              empty({kBatch, kTokens}, DType::kInt64)};
  std::uint64_t draws = 0;
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(
        random_below({.seed = 1, .stream = step}, draws++, static_cast<std::uint64_t>(bound)));
  };
  for (std::int64_t b = 0; b < kBatch; ++b) {
    std::int64_t* const keys = batch.keys.select(b).data<std::int64_t>();
    std::int64_t* const values = batch.values.select(b).data<std::int64_t>();
    std::int64_t* const answers = batch.answers.select(b).data<std::int64_t>();
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const bool asks = t >= kKeys;
      keys[t] = asks ? below(kKeys) : t;
      values[t] = asks ? kValues : below(kValues);
      answers[t] = asks ? values[keys[t]] : kIgnoredTarget;
    }
  }
  return batch;
}

HeadRoutingOptions one_shared_three_routed() {
  HeadRoutingOptions routing;
  routing.kind = routers::kLearned;
  routing.router.heads = 8;
  routing.router.num_shared = 1;
  routing.router.top_k = 3;
  return routing;
}

/// Embeddings, the attention layer, and a map to the logits of the values.
struct RecallModel : Module {
  explicit RecallModel(Placement placement = DType::kFloat32)
      : keys(add_parameter("keys.weight", {kKeys, kWidth}, placement)),
        values(add_parameter("values.weight", {kValues + 1, kWidth}, placement)),
        attention({.width = kWidth, .heads = 8, .head_dim = 8, .routing = one_shared_three_routed()},
                  placement),
        head(kWidth, kValues, /*bias=*/true, placement) {
    add_child("attention", attention);
    add_child("head", head);
    for (const NamedParameter& p : parameters())
      fill_normal(p.variable.value(), initialisation_key(/*seed=*/1, p.name), 0, is_matrix(p) ? 0.2 : 0);
  }

  Variable embed(const Batch& batch) const {
    return add(embedding(keys, batch.keys), embedding(values, batch.values));
  }

  Variable keys, values;
  MohAttention attention;
  Linear head;
};

/// The share of the told pairs, and of the questions, that select each head.
void print_choice(const RecallModel& model, const Batch& batch) {
  const NoGrad no_grad;
  const HeadChoice choice = (*model.attention.router())({.x = model.embed(batch)});
  const Tensor selected = choice.routing.selected;  // [B T, heads]
  for (const bool asks : {false, true}) {
    std::printf("%s", asks ? "asked:" : "told: ");
    for (std::int64_t head = 0; head < selected.dim(1); ++head) {
      int count = 0;
      for (std::int64_t row = 0; row < selected.dim(0); ++row)
        if ((row % kTokens >= kKeys) == asks) count += selected.select(row).data<std::uint8_t>()[head];
      std::printf("  head %d %3.0f%%", static_cast<int>(head), 100.0 * count / (kBatch * kKeys));
    }
    std::printf("\n");
  }
}

}  // namespace

int main() {
  const RecallModel model;
  AdamW optimizer(model.parameters(), {.weight_decay = 0});
  optimizer.set_learning_rate(3e-3);

  for (std::uint64_t step = 0; step <= 200; ++step) {
    const Batch batch = recall_batch(step);
    if (step % 200 == 0) print_choice(model, batch);
    const LayerOutput out = model.attention.forward(model.embed(batch), {.training = true});
    const Variable loss = cross_entropy(model.head(out.y), batch.answers, {.normalizer = kBatch * kKeys});
    if (step % 25 == 0) std::printf("step %3d  loss %.4f\n", static_cast<int>(step), loss.value().item());
    add(loss, scale(out.routing->balance, 0.01)).backward();
    optimizer.step(loss);
    optimizer.zero_grad();
  }
}
