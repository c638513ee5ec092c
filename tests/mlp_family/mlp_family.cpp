#include "tests/mlp_family/mlp_family.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/random.h"
#include "models/layers/linear.h"
#include "ops/linalg/gelu_mlp.h"
#include "ops/loss/cross_entropy.h"
#include "train/config/problems.h"
#include "train/trainer/config/run_config.h"
#include "train/trainer/task/data/place.h"

namespace moh::test {

namespace {

struct MlpRun final : CloneableFamilyConfig<MlpRun> {
  std::int64_t inputs = 16, hidden = 64, classes = 4, held_out = 256;

  std::string_view task() const override { return "mlp_classifier"; }
  void describe(config::Section& root) override {
    using config::at_least;
    config::Section& model = root.section_named("model");
    model.field("inputs", inputs, at_least(1), "Numbers of a point.");
    model.field("hidden", hidden, at_least(1), "Width inside.");
    model.field("classes", classes, at_least(2), "Classes of points.");
    root.section_named("data").field("held_out", held_out, at_least(0), "Points to validate on.");
  }
  void check(const RunConfig&, config::Rules& rules) const override {
    if (classes > hidden)
      rules.refuse({"model.classes", "model.hidden"}, "at most model.hidden", std::to_string(classes));
  }
  void begin_with_model_of(const FamilyConfig& checkpoint) override {
    const auto& other = static_cast<const MlpRun&>(checkpoint);
    inputs = other.inputs;
    hidden = other.hidden;
    classes = other.classes;
  }
};

class Mlp final : public Model {
 public:
  Mlp(const MlpRun& run, Placement placement)
      : Model(placement),
        up_(run.inputs, run.hidden, true, placement),
        down_(run.hidden, run.classes, true, placement) {
    add_child("up", up_);
    add_child("down", down_);
  }
  std::string_view family() const override { return "mlp"; }
  void initialise(std::uint64_t seed) override {
    for (const NamedParameter& p : parameters())
      fill_normal(p.variable.value(), initialisation_key(seed, p.name), 0, init_std());
  }
  double init_std() const override { return 0.1; }
  Variable logits(const Tensor& x) const {
    return gelu_mlp(Variable(x), up_.weight(), up_.bias(), down_.weight(), down_.bias(), GeluForm::kTanh);
  }

 private:
  Linear up_, down_;
};

struct Points {
  Tensor x, labels;
};

/// Points [first, first + count): normal numbers, moved along one axis by which their class is told.
Points points(const MlpRun& run, const RunConfig& config, std::uint64_t stream, std::int64_t first,
              std::int64_t count) {
  const MemoryPurposeScope purpose(MemoryPurpose::kData);
  Points p{empty({count, run.inputs}, DType::kFloat32), zeros({count}, DType::kInt64)};
  for (std::int64_t i = 0; i < count; ++i) {
    fill_normal(p.x.select(i), {config.random_seed() + stream, static_cast<std::uint64_t>(first + i)}, 0, 1);
    const std::int64_t label = (first + i) % run.classes;
    p.labels.data<std::int64_t>()[i] = label;
    p.x.data<float>()[i * run.inputs + label % run.inputs] += 4;
  }
  const DType dtype = dtype_of(config.precision);
  return {p.x.to(dtype), p.labels};
}

class MlpTask final : public Task {
 public:
  MlpTask(const RunConfig& config, std::unique_ptr<Model> model)
      : config_(config),
        run_(static_cast<const MlpRun&>(*config_.family)),
        model_(static_cast<Mlp*>(model.release())) {}

  const Model& model() const override { return *model_; }
  Unit unit() const override { return {"point", "points", "points/s"}; }
  Score score() const override { return {"accuracy", /*higher_is_better=*/true}; }
  std::string summary() const override { return "model: an MLP"; }
  void seek(std::int64_t first_sample, const StepPart& part) override {
    first_sample_ = first_sample;
    part_ = part;
    next_ = 0;
  }
  StepSize start_step(std::int64_t count) override {
    return {count * config_.train.batch_size, count * config_.train.batch_size};
  }
  void load(std::int64_t) override {
    const std::int64_t first = part_.first_of(next_++, first_sample_, config_.train);
    const Points batch = points(run_, config_, 1, first, config_.train.batch_size);
    place(loaded_.x, batch.x, config_.device);
    place(loaded_.labels, batch.labels, config_.device);
  }
  MicroBatchLoss loss(Generator&) override {
    const double targets = static_cast<double>(loaded_.labels.numel() * config_.train.accumulate);
    const Variable loss = cross_entropy(model_->logits(loaded_.x), loaded_.labels, {.normalizer = targets});
    return {loss, loss.value(), {}};
  }
  std::optional<Evaluation> evaluate(StopEvaluation stop, Communicator&) override {
    if (run_.held_out == 0 || stop({0, run_.held_out})) return std::nullopt;
    const NoGrad no_grad;
    const Points held_out = points(run_, config_, 2, 0, run_.held_out);
    const Tensor logits = model_->logits(held_out.x.to(config_.device)).value().to(kCpu).to(DType::kFloat32);
    std::int64_t right = 0;
    for (std::int64_t i = 0; i < run_.held_out; ++i) {
      const std::span<const float> row = logits.select(i).span<float>();
      right += std::ranges::max_element(row) - row.begin() == i % run_.classes;
    }
    return Evaluation{static_cast<double>(right) / static_cast<double>(run_.held_out), {}, {}};
  }

 private:
  RunConfig config_;
  const MlpRun& run_;
  std::unique_ptr<Mlp> model_;
  StepPart part_;
  std::int64_t first_sample_ = 0, next_ = 0;
  Points loaded_;
};

class MlpFamily final : public Family {
 public:
  const FamilyConfig& defaults() const override { return defaults_; }
  const WeightNames& weight_names() const override { return weight_names_; }
  std::shared_ptr<const TaskData> open_data(const RunConfig&, DataUse) const override { return nullptr; }
  std::unique_ptr<Model> make_model(const FamilyConfig& config, Placement placement) const override {
    return std::make_unique<Mlp>(static_cast<const MlpRun&>(config), placement);
  }
  std::unique_ptr<Task> make_task(const RunConfig& run, std::shared_ptr<const TaskData>,
                                  std::unique_ptr<Model> model) const override {
    return std::make_unique<MlpTask>(run, std::move(model));
  }

 private:
  MlpRun defaults_;
  WeightNames weight_names_;  // only moh knows these models
};

}  // namespace

const Family& mlp_family() {
  static const MlpFamily family;
  return family;
}

}  // namespace moh::test
