// Operations of a translation model's step, as the profiler counts them: those of heads that no token
// selected are left out of all three kinds of attention, forward and backward.

#include <catch2/catch.hpp>

#include "autograd/profile.h"
#include "core/device_clock.h"
#include "core/dry_run.h"
#include "ops/loss/cross_entropy.h"
#include "tests/models/translation/tiny_translation.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kBackward = 2;  // products of the backward pass, for each of the forward pass

/// Wide enough heads and tokens that projections of selected heads alone pay (head_projection_pays).
TranslationConfig wide() {
  TranslationConfig c = tiny_translation();
  c.encoder_layers = c.decoder_layers = 1;
  c.kv_heads = 4;
  c.head_dim = 32;
  c.max_positions = 100;
  return c;
}

double flops(const TranslationConfig& config, const PackedPairs& pairs) {
  TranslationModel model(config, DType::kFloat32);
  model.initialise(1);
  DeviceClock no_clock([] { return 0.0; });
  const Profiler profiler(no_clock);
  const Tensor targets = pairs.target.reshape({1, pairs.target.numel()});
  cross_entropy(model.forward(pairs).logits, targets).backward();
  return profiler.model_flops();
}

}  // namespace

TEST_CASE("translation: a dry run, which has no ranges of keys, reports the FLOPs of the sentences") {
  const TranslationText text = some_translations({{90, 80}, {3, 7}, {70, 75}});
  for (const TranslationKind& kind : translation_kinds()) {
    CAPTURE(kind.name);
    TranslationConfig c = kind.config;
    c.max_positions = 100;
    const double real = flops(c, text.packed());
    const DryRunScope scope;
    CHECK(flops(c, text.packed()) == Approx(real).epsilon(1e-12));
  }
}

TEST_CASE("translation: FLOPs of a routed step are fewer by those of the heads that are skipped") {
  TranslationConfig c = wide();
  const PackedPairs pairs = some_translations({{90, 80}, {70, 75}}).packed();
  const double source = 160, target = 155;
  const double dense = flops(c, pairs);
  c.moh = {.router = routers::kLearned, .num_shared = 1, .top_k = 1};
  const double routed = flops(c, pairs);
  const double hidden = 16, head_dim = 32, skipped = 2, router = 3 + 2;
  const double queries = source + 2 * target;  // of the three layers
  // A query saves for a skipped head its row of the queries' matrix, and that of the output's.
  const double projections = queries * skipped * 2 * (2 * hidden * head_dim);
  const double routers = queries * 2 * hidden * router;
  // A query saves for a skipped head and a key a score and its part of the mean, 2 d operations each.
  const double keys = 90 * 90 + 70 * 70 + 80 * 81 / 2.0 + 75 * 76 / 2.0 + 80 * 90 + 75 * 70;
  const double scores = keys * skipped * 4 * head_dim;
  const double expected = (1 + kBackward) * (projections - routers) + (1 + kBackward) * scores;
  INFO("dense " << dense << ", routed " << routed);
  CHECK(dense - routed == Approx(expected).epsilon(1e-9));
}
