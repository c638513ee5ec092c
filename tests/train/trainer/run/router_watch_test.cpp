#include "train/trainer/run/router_watch.h"

#include <catch2/catch.hpp>

#include "tests/support/language_runs.h"
#include "tests/support/temporary_folder.h"
#include "train/families/language/language_task.h"

using namespace moh;

namespace {

/// Two layers of four heads, one of them shared and one kept; four sequences of 64 tokens.
RunConfig routed_run() {
  RunConfig run = default_language_run();
  model_of(run) = {.layers = 2, .hidden = 16, .intermediate = 16, .heads = 4, .max_positions = 64};
  MohConfig& moh = language_run(run).model.moh;
  moh.router = routers::kLearned;
  moh.num_shared = {1};
  moh.top_k = {1};
  language_run(run).data.sequence_length = 64;
  run.train.batch_size = 8;  // enough tokens for a router to be judged by
  return run;
}

/// A task of that run, and its routers' weights by layer.
struct RouterFixture {
  explicit RouterFixture(const RunConfig& run = routed_run()) : task(run, data(), make_model(run)) {
    task.seek(0, {});
    for (const NamedParameter& parameter : task.model().parameters()) {
      if (parameter.name.ends_with("wg.weight")) routers.push_back(parameter.variable.value());
    }
  }

  static std::shared_ptr<const LanguageData> data() {
    auto data = std::make_shared<LanguageData>();
    data->tokenizer = std::make_unique<ByteTokenizer>();
    std::vector<TokenId> ids;
    for (TokenId i = 0; i < 2000; ++i) ids.push_back('a' + (i * 7 + i / 5 * 3) % 26);
    data->train = {{.tokens = tokens_in_memory(ids, 256)}};
    return data;
  }

  static std::unique_ptr<Llama> make_model(const RunConfig& run) {
    auto model = std::make_unique<Llama>(model_of(run), Placement{DType::kFloat32});
    model->initialise(7);
    return model;
  }

  StepStatistics step() {
    Generator generator(1, 0);
    TrainingStep step = task.begin_step(1);
    step.set_targets(step.size().targets);
    std::vector<double> numbers;
    const MicroBatchLoss loss = step.load(0).loss(generator);
    for (const Tensor& tensor : values_of(loss.numbers)) {
      const Tensor wide = tensor.to(DType::kFloat64);
      numbers.insert(numbers.end(), wide.data<double>(), wide.data<double>() + wide.numel());
    }
    return NumberLayout(loss.numbers).statistics(step.size().items, 1, numbers);
  }

  LanguageTask task;
  std::vector<Tensor> routers;
};

std::vector<std::optional<double>> of_layers(const StepStatistics& statistics, std::string_view name) {
  for (const auto& [key, numbers] : statistics.layers) {
    if (key == name) return numbers;
  }
  return {};
}

}  // namespace

TEST_CASE("router watch: a router that always selects the same heads has collapsed") {
  RouterFixture fixture;
  RouterWatch watch(fixture.task);
  CHECK(watch.has_routers());
  CHECK(watch.newly_collapsed(fixture.step()).empty());
  REQUIRE(fixture.routers.size() == 2);
  const Tensor learned = fixture.routers[1].clone();
  fixture.routers[1].fill(0);  // all logits are equal, and ties go to the first head
  const StepStatistics collapsed = fixture.step();
  CHECK(of_layers(collapsed, "dead_heads")[1] == 2);
  CHECK(of_layers(collapsed, "router_margin")[1] == 0);
  CHECK(of_layers(collapsed, "router_margin")[0].value() > 0);
  CHECK(of_layers(collapsed, "layer_balance_loss")[1].value() == Approx(1));  // E sum of P f = 3 x 1/3 x 1
  CHECK(watch.newly_collapsed(collapsed) == std::vector<std::int64_t>{1});
  CHECK(watch.newly_collapsed(collapsed).empty());  // said once
  fixture.routers[1].copy_from(learned);
  CHECK(watch.newly_collapsed(fixture.step()).empty());
  fixture.routers[1].fill(0);
  CHECK(watch.newly_collapsed(fixture.step()) == std::vector<std::int64_t>{1});
}

TEST_CASE("router watch: half of the weight is the routed heads' where the two-stage router is indifferent") {
  RouterFixture fixture;
  for (const NamedParameter& parameter : fixture.task.model().parameters()) {
    if (!parameter.name.ends_with("wg_0.weight")) continue;
    Tensor weight = parameter.variable.value();
    weight.fill(0);
  }
  for (const std::optional<double>& weight : of_layers(fixture.step(), "routed_weight"))
    CHECK(weight.value() == Approx(0.5));
}

TEST_CASE("router watch: churn is the share of selected pairs that differ") {
  RouterFixture fixture;
  RouterWatch watch(fixture.task);
  using Shares = std::vector<std::optional<double>>;
  std::vector<std::string> selections;
  CHECK(watch.churn(selections) == Shares{std::nullopt, std::nullopt});
  REQUIRE(selections.size() == 2);
  CHECK(selections[0].size() == 512);  // bits of 512 tokens and 4 heads
  CHECK(watch.churn(selections) == Shares{0, 0});
  fixture.step();  // the batch that is compared is not the next one
  CHECK(watch.churn(selections) == Shares{0, 0});
  fixture.routers[1].fill(0);
  const Shares changed = watch.churn(selections);
  CHECK(changed[0] == 0);
  CHECK(changed[1].value() > 0.2);
  CHECK(changed[1].value() <= 1);
  selections[0] += "0";  // of another model
  CHECK(watch.churn(selections) == Shares{std::nullopt, 0});
}

TEST_CASE("router watch: a dense model has nothing to watch") {
  RunConfig run = routed_run();
  language_run(run).model.moh = {};
  RouterFixture fixture(run);
  CHECK_FALSE(RouterWatch(fixture.task).has_routers());
  CHECK(fixture.step().layers.empty());
}
