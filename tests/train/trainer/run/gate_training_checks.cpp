#include "tests/train/trainer/run/gate_training_checks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>

#include "models/layers/attention_observer.h"
#include "models/llm/llama.h"
#include "tests/support/language_runs.h"
#include "tests/support/temporary_folder.h"
#include "train/trainer/run/train_step.h"
#include "train/trainer/task/load_model.h"

namespace moh::test {

namespace {

using Numbers = std::vector<double>;

constexpr std::int64_t kSteps = 20, kHeads = 6, kShared = 2, kTopK = 2;

RunConfig run_of(GateScaling scaling, bool two_stage, Device device, const std::filesystem::path& text) {
  RunConfig config = default_language_run();
  config.device = device;
  config.seed = 3;
  LlamaConfig& model = model_of(config);
  model.layers = 1;
  model.hidden = 24;
  model.intermediate = 32;
  model.heads = kHeads;
  model.max_positions = 12;
  model.init_std = 0.2;  // gates that differ
  model.moh.router = routers::kLearned;
  model.moh.num_shared = kShared;
  model.moh.top_k = kTopK;
  model.moh.gate_scaling = scaling;
  model.moh.two_stage = two_stage;
  TextDataConfig& data = language_run(config).data;
  data.train = unnamed_source({text});
  data.sequence_length = 12;
  config.train.batch_size = 4;
  config.train.accumulate = 1;
  return config;
}

Numbers numbers_of(const Tensor& tensor) {
  const Tensor wide = tensor.to(kCpu).to(DType::kFloat64);
  return {wide.data<double>(), wide.data<double>() + wide.numel()};
}

/// Parameters by name.
std::map<std::string, Numbers> weights_of(const Model& model) {
  std::map<std::string, Numbers> weights;
  for (const NamedParameter& p : model.parameters()) weights[p.name] = numbers_of(p.variable.value());
  return weights;
}

/// softmax(w x) of one token.
Numbers softmax_of(const Numbers& w, const double* x, std::size_t width) {
  Numbers p(w.size() / width);
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    for (std::size_t j = 0; j < width; ++j) p[i] += w[i * width + j] * x[j];
    sum += p[i] = std::exp(p[i]);
  }
  for (double& e : p) e /= sum;
  return p;
}

/// The gates of one token by the formulas of the paper, and of its released code.
Numbers expected_gates(const MohConfig& moh, const std::map<std::string, Numbers>& weights, const double* x,
                       std::size_t width) {
  const auto by = [&](const std::string& name) {
    return softmax_of(weights.at("model.layers.0.self_attn." + name + ".weight"), x, width);
  };
  const bool code = moh.gate_scaling == GateScaling::kCode;
  const Numbers kinds = moh.two_stage ? by("wg_0") : Numbers{0.5, 0.5};
  const Numbers shared = by("wg_1"), routed = by("wg");
  Numbers gates;
  for (double p : shared) gates.push_back(code ? 2 * kinds[0] * kShared * p : kinds[0] * p);
  Numbers best = routed;
  std::ranges::sort(best, std::greater());
  double kept = 0;
  for (int i = 0; i < kTopK; ++i) kept += best[static_cast<std::size_t>(i)];
  for (double p : routed) {
    const double gate = code ? 2 * kinds[1] * kTopK * p / kept : kinds[1] * p;
    gates.push_back(p >= best[kTopK - 1] ? gate : 0);
  }
  return gates;
}

struct GateReader : AttentionObserver {
  void observe(const AttentionTrace& trace) override {
    x = numbers_of(trace.x);
    gates = numbers_of(trace.choice->gates.value());
  }
  Numbers x, gates;
};

void check_gates(const LlamaConfig& config, const Model& model) {
  const Tensor tokens = tensor_of<std::int64_t>({1, 6}, {'t', 'h', 'e', ' ', 'h', 'e'});
  GateReader reader;
  dynamic_cast<const Llama&>(model).forward(tokens, {.observer = &reader});
  const std::map<std::string, Numbers> weights = weights_of(model);
  const auto width = static_cast<std::size_t>(config.hidden);
  for (std::size_t token = 0; token < static_cast<std::size_t>(tokens.numel()); ++token) {
    const Numbers expected = expected_gates(config.moh, weights, &reader.x[token * width], width);
    for (std::size_t h = 0; h < expected.size(); ++h)
      CHECK(reader.gates[token * expected.size() + h] == Approx(expected[h]).margin(1e-5));
  }
}

void check_training(const RunConfig& config) {
  const Family& family = language_family();
  const auto task = family.make_task(config, family.open_data(config, DataUse::kTraining),
                                     make_initialised_model(family, config));
  AdamW optimizer(task->model(), config.optim.adamw);
  TrainStep train_step(*task, optimizer, config);
  task->seek(0, {});
  const std::map<std::string, Numbers> before = weights_of(task->model());
  std::vector<double> losses;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    train_step.begin(step, 0.01);
    const StepReport report = train_step.finish();
    CHECK(std::isfinite(report.loss));
    CHECK(std::isfinite(report.gradient_norm));
    CHECK_FALSE(report.skipped);
    losses.push_back(report.loss);
  }
  CHECK(losses.back() < losses.front() - 1);
  for (const auto& [name, numbers] : weights_of(task->model())) {
    INFO(name);
    CHECK(numbers != before.at(name));
  }
  CHECK(before.contains("model.layers.0.self_attn.wg_0.weight") == model_of(config).moh.two_stage);
  check_gates(model_of(config), task->model());
}

}  // namespace

void check_training_with_gates(Device device) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "the head that each token needs, the gate of a head. ";
  write_file(folder / "text.txt", text);
  for (const auto& [scaling, two_stage] :
       {std::pair(GateScaling::kPaper, true), std::pair(GateScaling::kPaper, false),
        std::pair(GateScaling::kCode, false)}) {
    INFO((scaling == GateScaling::kPaper ? "paper" : "code") << (two_stage ? ", two stages" : ", one stage"));
    check_training(run_of(scaling, two_stage, device, folder / "text.txt"));
  }
}

}  // namespace moh::test
