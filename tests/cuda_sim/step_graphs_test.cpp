// The stages of a step as CUDA graphs, on text whose number of targets is another in each step.

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "core/cuda/backend.h"
#include "tests/cuda_sim/stream.h"
#include "tests/cuda_sim/training_run.h"
#include "train/families/language/data/token_source.h"
#include "train/families/language/language_task.h"
#include "train/trainer/run/train_step.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr int kGraphSteps = 7;

/// Prompts, which are no targets, of 1 to 12 tokens, and responses of 3.
std::shared_ptr<const LanguageData> prompts_and_responses() {
  std::vector<TokenId> ids;
  for (TokenId document = 0; document < 60; ++document) {
    for (TokenId t = 0; t < 1 + document * 5 % 12; ++t) ids.push_back(marked('a' + (document + t) % 26));
    for (TokenId t = 0; t < 3; ++t) ids.push_back('A' + (document * 7 + t * 11) % 26);
    ids.push_back(ByteTokenizer::kEndOfDocument);
  }
  auto data = std::make_shared<LanguageData>();
  data->tokenizer = std::make_unique<ByteTokenizer>();
  data->train = {{.tokens = tokens_in_memory(ids, 256)}};
  return data;
}

/// With dropout, routed heads, a balance loss, biases of the selection and a moving average of the weights.
RunConfig run_with(std::int64_t accumulate, bool graph) {
  RunConfig config = small_run();
  config.train.accumulate = accumulate;
  config.ema.decay = 0.9;
  config.cuda_graph = graph;
  model_of(config).moh.balance_weight = 0.1;
  model_of(config).moh.balance_bias = 0.01;
  return config;
}

struct Run {
  explicit Run(const RunConfig& of)
      : config(of),
        task(config, prompts_and_responses(), model()),
        optimizer(task.model(), config.optim.adamw) {
    task.seek(0, {});
  }
  std::unique_ptr<Llama> model() const {
    auto made = std::make_unique<Llama>(model_of(config), Placement{DType::kFloat32, config.device});
    made->initialise(3);
    return made;
  }
  /// Weights, moments and averages.
  std::vector<Tensor> state() const {
    std::vector<Tensor> all;
    for (const NamedTensor& entry : optimizer.state()) all.push_back(entry.tensor.to(kCpu).clone());
    for (const NamedTensor& entry : optimizer.weights()) all.push_back(entry.tensor.to(kCpu).clone());
    for (const NamedTensor& entry : step.average()->state()) all.push_back(entry.tensor.to(kCpu).clone());
    return all;
  }

  RunConfig config;
  LanguageTask task;
  AdamW optimizer;
  TrainStep step{task, optimizer, config};
  std::set<std::int64_t> targets = {};
};

std::vector<StepReport> train(Run& run) {
  std::vector<StepReport> reports;
  for (std::int64_t i = 0; i < kGraphSteps; ++i) {
    run.targets.insert(run.step.begin(i, 0.01 / static_cast<double>(1 + i)).targets);
    reports.push_back(run.step.finish());
  }
  return reports;
}

/// Compares a run whose model `change` has made with one that is captured.
template <class Change>
void check_captured(const Change& change) {
  RunConfig configs[] = {run_with(2, false), run_with(2, true)};
  for (RunConfig& config : configs) change(model_of(config));
  Run eager(configs[0]), captured(configs[1]);
  const std::vector<StepReport> expected = train(eager), found = train(captured);
  CHECK(captured.step.captured());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].loss == expected[i].loss);
  CHECK(same_bits(captured.state(), eager.state()));
}

}  // namespace

TEST_CASE("sim: three graphs give the bits of an uncaptured step, however many micro-batches and targets") {
  const std::int64_t accumulate = GENERATE(1, 2, 5);
  const sim::Streams::TimingScope late(accumulate == 2 ? sim::Timing::kLate : sim::Timing::kAtOnce);
  INFO(accumulate << " micro-batches");
  Run eager(run_with(accumulate, false)), captured(run_with(accumulate, true));
  const std::vector<StepReport> expected = train(eager), found = train(captured);
  CHECK(captured.step.captured());
  CHECK_FALSE(eager.step.captured());
  CHECK(eager.targets.size() >= 4);  // or a number that was captured would not be noticed
  for (std::size_t i = 0; i < kGraphSteps; ++i) {
    INFO("step " << i);
    CHECK(found[i].loss == expected[i].loss);
    CHECK(found[i].gradient_norm == expected[i].gradient_norm);
    CHECK(found[i].statistics.scalars == expected[i].statistics.scalars);
    CHECK(found[i].statistics.rows == expected[i].statistics.rows);
  }
  CHECK(same_bits(captured.state(), eager.state()));
}

TEST_CASE("sim: inside KV groups, too, a captured step has the bits of one that is not") {
  check_captured([](LlamaConfig& model) {
    model.kv_heads = model.heads / 2;
    model.moh.routing = routings::kWithinGroups;
    model.moh.balance_loss = BalanceLoss::kCv;
    model.moh.num_shared = 0;
    model.moh.top_k = model.kv_heads;
  });
}

TEST_CASE("sim: with experts of values and outputs likewise") {
  check_captured([](LlamaConfig& model) {
    model.moh = {};
    model.switch_head = {4, 2};
  });
}

TEST_CASE("sim: the graphs of a step do not grow with its micro-batches") {
  const auto nodes_with = [](std::int64_t accumulate) {
    Run run(run_with(accumulate, true));
    CHECK(run.step.graph_nodes() == 0);
    train(run);
    return run.step.graph_nodes();
  };
  const std::size_t two = nodes_with(2);
  CHECK(two > 100);
  CHECK(nodes_with(9) == two);
  CHECK(nodes_with(1) < two);  // no following micro-batch
}

TEST_CASE("sim: a balance loss over the whole step counts its loads in a graph of their own") {
  const auto run_of = [](BalanceScope scope, bool graph) {
    RunConfig config = run_with(3, graph);
    model_of(config).moh.balance_scope = scope;
    return config;
  };
  Run eager(run_of(BalanceScope::kGlobal, false)), captured(run_of(BalanceScope::kGlobal, true)),
      apart(run_of(BalanceScope::kMicroBatch, true));
  const std::vector<StepReport> expected = train(eager), found = train(captured);
  CHECK(captured.step.captured());
  for (std::size_t i = 0; i < kGraphSteps; ++i) {
    INFO("step " << i);
    CHECK(found[i].gradient_norm == expected[i].gradient_norm);
    CHECK(found[i].statistics.scalars == expected[i].statistics.scalars);
  }
  CHECK(same_bits(captured.state(), eager.state()));
  train(apart);
  CHECK(captured.step.graph_nodes() > apart.step.graph_nodes());
  CHECK_FALSE(same_bits(apart.state(), eager.state()));
}

TEST_CASE("sim: a captured step that is stopped between its micro-batches changes nothing") {
  Run run(run_with(5, true)), straight(run_with(5, true));
  train(run);
  train(straight);
  const std::vector<Tensor> before = run.state();
  int asked = 0;
  CHECK_FALSE(run.step.begin_unless([&] { return ++asked == 3; }, kGraphSteps, 0.01));
  CHECK(run.step.under_way() == 0);
  CHECK(same_bits(run.state(), before));
  // The next step is as if there had not been one.
  for (Run* each : {&run, &straight}) {
    each->task.seek(0, {});
    each->step.begin(kGraphSteps + 1, 0.01);
    each->step.finish();
  }
  CHECK(same_bits(run.state(), straight.state()));
}

TEST_CASE("sim: other work between captured steps has their memory, and what it keeps is not overwritten") {
  Run run(run_with(2, true)), straight(run_with(2, true));
  train(run);
  train(straight);
  const auto reserved = [] { return cuda::memory_stats().reserved_bytes; };
  const std::int64_t before = reserved();
  std::vector<Tensor> kept;
  const auto work = [&] {
    const Device gpu = run.config.device;
    const Tensor large = full({1 << 19}, 7.0, DType::kFloat32, gpu);
    CHECK(reserved() == before);  // of the steps'
    const Tensor larger = full({1 << 23}, 7.0, DType::kFloat32, gpu);
    CHECK(reserved() > before);
    if (!kept.empty()) kept.push_back(full({1 << 18}, 9.0, DType::kFloat32, gpu));
  };
  const auto step_both = [&](std::int64_t step) {
    for (Run* each : {&run, &straight}) {
      each->step.begin(step, 0.01);
      each->step.finish();
    }
    CHECK(same_bits(run.state(), straight.state()));
  };
  run.step.lend_memory(work);
  CHECK(reserved() == before);
  CHECK(run.step.captured());
  step_both(kGraphSteps);

  kept.push_back({});
  run.step.lend_memory(work);
  CHECK_FALSE(run.step.captured());  // a replay might write where the tensor is
  for (std::int64_t i = 1; i <= 5; ++i) step_both(kGraphSteps + i);
  CHECK(run.step.captured());
  const Tensor here = kept.back().to(kCpu);
  CHECK(std::ranges::all_of(here.span<float>(), [](float element) { return element == 9.0F; }));
}
