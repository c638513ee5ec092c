#include "train/heads/init/initialise_model.h"
#include "train/families/families.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/allocator.h"
#include "core/error.h"
#include "models/layers/attention_observer.h"
#include "tests/support/message_of.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/heads/init/init_fixture.h"
#include "train/base/formats/safetensors.h"
#include "train/heads/init/divergence.h"
#include "train/heads/init/router_start.h"

using namespace moh;
using namespace moh::test;

namespace {

/// A dense model in a file.
struct DenseFile {
  explicit DenseFile(const RunConfig& run = tiny_run()) : model(tiny_model(run)) {
    std::vector<NamedTensor> tensors;
    for (const NamedParameter& p : model->parameters()) tensors.push_back({p.name, p.variable.value()});
    save_safetensors(path, tensors);
  }

  TemporaryFolder folder;
  std::filesystem::path path = folder / "dense.safetensors";
  std::unique_ptr<Llama> model;
};

LlamaConfig& model_of(RunConfig& run) {
  return language_run(run).model;
}

RunConfig routed_run(const DenseFile& file, RouterKey router, std::int64_t num_shared, std::int64_t top_k) {
  RunConfig run = tiny_run();
  run.init.from = file.path;
  model_of(run).moh = {.router = router, .num_shared = num_shared, .top_k = top_k};
  return run;
}

void initialise(const Llama& model, const RunConfig& run, const Calibration& calibration) {
  initialise_from_source(model, open_source(run, families()), run, families().of(run), calibration);
}

/// A new model of the run, initialised from the file.
std::unique_ptr<Llama> initialised(const RunConfig& run, const Calibration& calibration) {
  auto model = tiny_model(run);
  initialise(*model, run, calibration);
  return model;
}

std::vector<NamedParameter> load(const Llama& model, const RunConfig& run) {
  return load_source(model, open_source(run, families()), run, families().of(run));
}

bool same_values(const Tensor& a, const Tensor& b) {
  return std::ranges::equal(a.span<float>(), b.span<float>());
}

}  // namespace

TEST_CASE("init: with zero weights and K = E the start is the dense model") {
  const DenseFile file;
  RunConfig run = routed_run(file, routers::kLearned, 2, 4);
  run.init.moh.router_start = RouterStart::kZero;
  const LanguageCalibration batches = tiny_calibration(run);
  const auto model = initialised(run, batches);
  CHECK(divergence_from_dense(*model, batches) == Approx(0).margin(1e-9));
  CHECK(same_values(parameter(*model, "model.norm.weight"), parameter(*file.model, "model.norm.weight")));
}

TEST_CASE("init: gates that a source lacks begin as its function, and those that it has are loaded") {
  const DenseFile file;
  const Tensor tokens = tensor_of<std::int64_t>({1, 5}, {3, 1, 4, 1, 5});
  const Tensor expected = file.model->forward(tokens).logits.value();
  for (const AttentionGate gate : {AttentionGate::kHead, AttentionGate::kElement}) {
    RunConfig run = tiny_run();
    run.init.from = file.path;
    model_of(run).attention_gate = gate;
    const auto model = tiny_model(run);
    CHECK(load(*model, run).empty());
    CHECK(same_values(model->forward(tokens).logits.value(), expected));
    model_of(run).moh = {.router = routers::kLearned, .num_shared = 2, .top_k = 2};
    CHECK_FALSE(load(*tiny_model(run), run).empty());

    RunConfig gated = tiny_run();
    model_of(gated).attention_gate = gate;
    const DenseFile trained(gated);
    gated.init.from = trained.path;
    const auto again = tiny_model(gated);
    again->initialise(99);
    load(*again, gated);
    CHECK(same_values(again->forward(tokens).logits.value(), trained.model->forward(tokens).logits.value()));
    model_of(gated).attention_gate = AttentionGate::kNone;
    CHECK_THAT(message_of<CheckpointError>([&] { open_source(gated, families()); }),
               Catch::Contains("output_gate.weight"));
  }
}

TEST_CASE("init: experts are loaded from a model that has them, and refused from others") {
  RunConfig run = tiny_run();
  model_of(run).switch_head = {3, 2};
  const DenseFile trained(run);
  run.init.from = trained.path;
  const Tensor tokens = tensor_of<std::int64_t>({1, 5}, {3, 1, 4, 1, 5});
  const auto again = tiny_model(run);
  again->initialise(99);
  CHECK(load(*again, run).empty());
  CHECK(same_values(again->forward(tokens).logits.value(), trained.model->forward(tokens).logits.value()));
  const DenseFile dense;
  run.init.from = dense.path;
  CHECK_THAT(message_of<CheckpointError>([&] { open_source(run, families()); }),
             Catch::Contains("v_router.weight") && Catch::Contains("v_proj.weight"));
}

TEST_CASE("init: a model larger than its source is refused before it takes memory") {
  const DenseFile file;
  RunConfig run = routed_run(file, routers::kLearned, 2, 4);
  model_of(run).intermediate = 1 << 20;
  model_of(run).layers = 1024;
  CpuAllocator::instance().reset_peaks();
  const std::int64_t before = CpuAllocator::instance().stats().total.current_bytes;
  CHECK_THROWS_AS(open_source(run, families()), CheckpointError);
  CHECK(CpuAllocator::instance().stats().total.peak_bytes - before < 1 << 20);
}

TEST_CASE("init: a family whose models are not measured starts routers without measurements") {
  const DenseFile file;
  RunConfig run = routed_run(file, routers::kLearned, 2, 2);
  const Calibration none;
  CHECK(message_of<ConfigError>([&] { initialised(run, none); }) ==
        "init.moh.router_start: expected a value that needs no calibration batches, found calibrated: task "
        "language_model has none; set it to zero or random");
  run.init.moh.router_start = RouterStart::kZero;
  const auto model = initialised(run, none);
  CHECK(same_values(parameter(*model, "model.norm.weight"), parameter(*file.model, "model.norm.weight")));
  model_of(run).moh.shared_heads.rule = HeadRule::kOutputNorm;
  CHECK_THROWS_AS(settle_shared_heads(run, families().of(run), open_source(run, families()), none),
                  ConfigError);
}

TEST_CASE("init: where heads are dropped, a calibrated router starts nearer to the dense model than others") {
  const DenseFile file;
  for (const bool listed : {false, true}) {
    RunConfig run = routed_run(file, routers::kLearned, 2, 2);
    if (listed) model_of(run).moh.shared_heads.each = {{1, 4}, {0, 5}};
    const LanguageCalibration batches = tiny_calibration(run);
    const auto divergence = [&](RouterStart start) {
      run.init.moh.router_start = start;
      return divergence_from_dense(*initialised(run, batches), batches);
    };
    const double calibrated = divergence(RouterStart::kCalibrated);
    CHECK(calibrated > 0);
    CHECK(calibrated < divergence(RouterStart::kZero));
    CHECK(calibrated < divergence(RouterStart::kRandom));
  }
}

TEST_CASE("init: a calibrated router has gates of 1 for shared heads, as near 1 as asked for routed ones") {
  struct Gates : AttentionObserver {
    void observe(const AttentionTrace& trace) override {
      const Tensor gates = trace.choice->gates.value();
      for (std::int64_t i = 0; i < gates.numel(); ++i) {
        const float gate = gates.data<float>()[i];
        if (i % 6 < 2) CHECK(gate == Approx(1).margin(1e-6));
        if (i % 6 >= 2 && gate != 0) squares.push_back((gate - 1) * (gate - 1));
        different |= i >= 6 && (gate == 0) != (gates.data<float>()[i % 6] == 0);
      }
    }
    std::vector<double> squares;
    bool different = false;
  };
  const DenseFile file;
  for (const double spread : {0.02, 0.1}) {
    RunConfig run = routed_run(file, routers::kLearned, 2, 2);
    const LanguageCalibration batches = tiny_calibration(run);
    const auto model = initialised(run, batches);
    calibrated_start(*model, router_parameters(*model), batches, {.spread = spread}).apply();
    Gates gates;
    model->forward(batches.batch(0).tokens, {.observer = &gates});
    double mean = 0;
    for (const double square : gates.squares) mean += square / static_cast<double>(gates.squares.size());
    CHECK(std::sqrt(mean) < 1.5 * spread);
    CHECK(std::sqrt(mean) > 0.1 * spread);
    CHECK(gates.different);  // not every token keeps the same heads
  }
}

TEST_CASE("init: random routers are those of a model without a checkpoint") {
  const DenseFile file;
  RunConfig run = routed_run(file, routers::kLearned, 2, 2);
  run.init.moh.router_start = RouterStart::kRandom;
  const LanguageCalibration batches = tiny_calibration(run);
  const auto model = initialised(run, batches), fresh = tiny_model(run);
  REQUIRE(router_parameters(*model).size() == 6);
  for (const NamedParameter& p : router_parameters(*model))
    CHECK(same_values(p.variable.value(), parameter(*fresh, p.name)));
}

TEST_CASE("init: each rule chooses shared heads, which go into the configuration") {
  const DenseFile file;
  for (const HeadRule rule : {HeadRule::kOutputNorm, HeadRule::kLossIncrease}) {
    RunConfig run = routed_run(file, routers::kQueryNorm, 2, 2);
    MohConfig& moh = *run.family->moh();
    moh.num_shared.each = {3, 0};
    moh.shared_heads.rule = rule;
    const LanguageCalibration batches = tiny_calibration(run);
    const StoredModel source = open_source(run, families());
    settle_shared_heads(run, families().of(run), source, batches);
    REQUIRE(moh.shared_heads.each.size() == 2);
    CHECK(moh.shared_heads.each[0].size() == 3);
    CHECK(moh.shared_heads.each[1].empty());
    CHECK_FALSE(moh.shared_heads.to_be_measured());
    ConfigFaults faults;
    check(model_of(run), faults);
    faults.throw_first("init");
    HeadSet chosen = moh.shared_heads;
    chosen.rule = moh.shared_heads.rule = HeadRule::kOutputNorm;
    settle_shared_heads(run, families().of(run), source, batches);
    CHECK(moh.shared_heads == chosen);  // what is listed is not measured again
  }
}

TEST_CASE("init: inside KV groups a dense model continues, with as many shared heads of each group") {
  RunConfig run = tiny_run();
  model_of(run).kv_heads = 2;
  const DenseFile file(run);
  run.init.from = file.path;
  run.init.moh.router_start = RouterStart::kZero;
  MohConfig& moh = *run.family->moh();
  moh = {.router = routers::kLearned, .routing = routings::kWithinGroups, .num_shared = 2, .top_k = 4};
  const LanguageCalibration batches = tiny_calibration(run);
  CHECK(divergence_from_dense(*initialised(run, batches), batches) == Approx(0).margin(1e-9));
  moh.top_k = 2;
  for (const HeadRule rule : {HeadRule::kOutputNorm, HeadRule::kLossIncrease}) {
    moh.shared_heads = {.rule = rule};
    settle_shared_heads(run, families().of(run), open_source(run, families()), batches);
    REQUIRE(moh.shared_heads.each.size() == 2);
    for (const std::vector<std::int64_t>& heads : moh.shared_heads.each) {
      REQUIRE(heads.size() == 2);
      CHECK(heads[0] < 3);
      CHECK(heads[1] >= 3);
    }
    run.init.moh.router_start = RouterStart::kCalibrated;
    CHECK(std::isfinite(divergence_from_dense(*initialised(run, batches), batches)));
  }
}

TEST_CASE("init: a larger vocabulary grows both matrices, a smaller one is refused") {
  const DenseFile file;
  RunConfig run = tiny_run();
  run.init.from = file.path;
  model_of(run).vocab_size = 300;
  const LanguageCalibration batches = tiny_calibration(run);
  const auto model = initialised(run, batches);
  for (const char* name : {"model.embed_tokens.weight", "lm_head.weight"}) {
    CHECK(same_values(parameter(*model, name).slice(0, 256), parameter(*file.model, name)));
    CHECK_FALSE(
        same_values(parameter(*model, name).slice(256, 257), parameter(*model, name).slice(257, 258)));
  }
  CHECK(same_values(parameter(*initialised(run, batches), "lm_head.weight"),
                    parameter(*model, "lm_head.weight")));
  model_of(run).vocab_size = 200;
  const std::string message = message_of<CheckpointError>([&] { initialised(run, batches); });
  CHECK_THAT(message, Catch::Contains("2 of another shape"));
  CHECK_THAT(message, Catch::Contains("model.embed_tokens.weight: expected [200, 16], found [256, 16]"));
}

TEST_CASE("init: what is missing or too much is listed, and nothing is changed") {
  const DenseFile file;
  RunConfig run = tiny_run();
  run.init.from = file.path;
  model_of(run).layers = 3;
  const auto model = tiny_model(run);
  const Tensor before = parameter(*model, "lm_head.weight").clone();
  const LanguageCalibration batches = tiny_calibration(run);
  const auto refusal = [&] { return message_of<CheckpointError>([&] { initialise(*model, run, batches); }); };
  CHECK_THAT(refusal(),
             Catch::Contains("9 missing") && Catch::Contains("missing: model.layers.2.mlp.up_proj.weight"));
  CHECK(same_values(parameter(*model, "lm_head.weight"), before));
  model_of(run).layers = 1;
  const auto small = tiny_model(run);
  CHECK_THAT(message_of<CheckpointError>([&] { initialise(*small, run, batches); }),
             Catch::Contains("9 unexpected"));
}

TEST_CASE("init: a checkpoint with some routers must have all of them") {
  const DenseFile file;
  const RunConfig run = routed_run(file, routers::kLearned, 2, 2);
  const auto model = tiny_model(run);
  std::vector<NamedTensor> tensors;
  for (const NamedParameter& p : model->parameters()) tensors.push_back({p.name, p.variable.value()});
  save_safetensors(file.path, tensors);
  CHECK(load(*model, run).empty());
  std::erase_if(tensors, [](const NamedTensor& t) { return t.name == "model.layers.1.self_attn.wg.weight"; });
  save_safetensors(file.path, tensors);
  CHECK_THAT(message_of<CheckpointError>([&] { load(*model, run); }),
             Catch::Contains("1 missing\n  missing: model.layers.1.self_attn.wg.weight"));
}
