#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "tests/support/language_runs.h"
#include "train/apps/plan/dry_step.h"
#include "train/trainer/run/train_step.h"

using namespace moh;

namespace {

/// The gradients of a step of a small bfloat16 model, kept in `gradients`, in float64.
std::vector<Tensor> gradients_of_step(Precision gradients, std::int64_t micro_batches) {
  RunConfig config = small_language_run();
  config.precision = Precision::kBFloat16;
  config.optim.adamw.gradients = gradients;
  config.train.accumulate = micro_batches;
  const std::unique_ptr<Task> task = synthetic_tasks(language_family())(config);
  AdamW optimizer(task->model(), config.optim.adamw);
  TrainStep step(*task, optimizer, config);
  task->seek(0, {});
  step.begin(0, 1e-4);
  CHECK_FALSE(step.finish().skipped);
  std::vector<Tensor> found;
  for (const NamedParameter& p : task->model().parameters()) {
    CHECK(p.variable.grad().dtype() == dtype_of(gradients));
    found.push_back(p.variable.grad().to(DType::kFloat64));
  }
  return found;
}

/// |a - b| / |b| over all tensors.
double relative_error(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double off = 0, all = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::int64_t j = 0; j < a[i].numel(); ++j) {
      const double x = a[i].data<double>()[j], y = b[i].data<double>()[j];
      off += (x - y) * (x - y);
      all += y * y;
    }
  }
  return std::sqrt(off / all);
}

}  // namespace

// docs/plan.md#gradients-in-bfloat16 has the numbers, which `trainer_tests -s` prints.
TEST_CASE("gradients in bfloat16: their error grows with the micro-batches, and is bounded") {
  double before = 0;
  for (const std::int64_t micro_batches : {1, 8, 64}) {
    const double error = relative_error(gradients_of_step(Precision::kBFloat16, micro_batches),
                                        gradients_of_step(Precision::kFloat32, micro_batches));
    INFO(micro_batches << " micro-batches");
    CHECK(error > before);
    // Each addition rounds by 2^-9 of the sum at most, and these errors add up as random ones do.
    CHECK(error < 0x1p-9 * std::sqrt(static_cast<double>(micro_batches)));
    before = error;
  }
}

TEST_CASE("gradients in bfloat16: those of float32 parameters stay float32") {
  RunConfig config = small_language_run();
  config.precision = Precision::kBFloat16;
  config.optim.adamw.gradients = Precision::kBFloat16;
  model_of(config).moh.router = routers::kLearned;
  model_of(config).moh.num_shared = 1;
  model_of(config).moh.top_k = 1;
  model_of(config).moh.router_precision = RouterPrecision::kFloat32;
  const std::unique_ptr<Task> task = synthetic_tasks(language_family())(config);
  const AdamW optimizer(task->model(), config.optim.adamw);
  for (const NamedParameter& p : task->model().parameters())
    CHECK(p.variable.grad_dtype() == p.variable.dtype());
}

TEST_CASE("gradients in bfloat16: their dtype is set before or after there is one") {
  Variable w(full({2}, 1.0, DType::kBFloat16), true);
  w.keep_gradient_in(zeros({2}, DType::kFloat32));
  w.set_grad_dtype(DType::kBFloat16);  // drops the buffer
  w.accumulate_grad(full({2}, 1.0 + 0x1p-10, DType::kFloat32));
  CHECK(w.grad().dtype() == DType::kBFloat16);
  CHECK(static_cast<float>(w.grad().span<bfloat16>()[0]) == 1.0F);
  w.set_grad_dtype(DType::kFloat32);
  CHECK_FALSE(w.grad().defined());
  CHECK_THROWS_AS(w.set_grad_dtype(DType::kFloat64), InternalError);
}
