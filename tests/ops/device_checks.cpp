#include "tests/ops/device_checks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/copy_to_row.h"
#include "core/cuda/backend.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "core/host_copy.h"
#include "core/random.h"
#include "core/visit_cpu_isa.h"
#include "ops/attention/head_lists.h"
#include "ops/dropout/drop_path.h"
#include "ops/dropout/dropout.h"
#include "ops/indices.h"
#include "ops/linalg/gelu_mlp_kernels.h"
#include "ops/linalg/linear_kernels.h"
#include "ops/loss/top1.h"
#include "ops/moh/balance_bias.h"
#include "ops/optim/adafactor.h"
#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"
#include "ops/optim/device_adamw.h"
#include "ops/optim/ema.h"
#include "ops/pool/window_pool.h"
#include "tests/ops/device_ways.h"
#include "tests/ops/op_run.h"
#include "tests/ops/router_statistics_case.h"
#include "tests/support/same_bits.h"

namespace moh::test {

namespace {

/// A selection of about half the pairs, the same each time; some tokens select nothing.
Tensor selection(const Shape& shape) {
  Tensor selected = empty(shape, DType::kUInt8);
  for (std::int64_t i = 0; i < selected.numel(); ++i)
    selected.data<std::uint8_t>()[i] = random_uniform({5, 1}, static_cast<std::uint64_t>(i)) < 0.5F;
  return selected;
}

template <class T>
bool same_elements(const Tensor& a, const Tensor& b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    if (a.data<T>()[i] != b.data<T>()[i]) return false;
  }
  return true;
}

/// One parameter with all that AdamW keeps for it.
AdamWParameter parameter(std::int64_t count, DType dtype, Device device) {
  const auto tensor = [&](std::uint64_t seed) { return normal({count}, seed).to(DType::kFloat32); };
  AdamWParameter p{tensor(1).to(dtype), tensor(2), tensor(3), tensor(4), {}, 0.1};
  p.exp_avg_sq.copy_from(uniform({count}, 0.1, 1.0, 4));
  if (dtype == DType::kBFloat16) p.master = p.value.to(DType::kFloat32);
  for (Tensor* part : {&p.value, &p.grad, &p.exp_avg, &p.exp_avg_sq, &p.master}) {
    if (part->defined()) *part = part->to(device);
  }
  return p;
}

void check_adamw(DType dtype) {
  constexpr std::int64_t kCount = 20000;  // more than a chunk
  const AdamWStep step{
      .step = 3, .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .grad_scale = 0.5};
  const AdamWParameter expected = parameter(kCount, dtype, kCpu),
                       found = parameter(kCount, dtype, open_gpu());
  adamw({&expected, 1}, step);
  adamw({&found, 1}, step);
  const double unit = dtype == DType::kBFloat16 ? 0x1p-6 : 1e-5;
  check_close(found.value.to(kCpu), expected.value, unit, "value");
  check_close(found.exp_avg.to(kCpu), expected.exp_avg, 1e-6, "exp_avg");
  check_close(found.exp_avg_sq.to(kCpu), expected.exp_avg_sq, 1e-6, "exp_avg_sq");
  if (expected.master.defined()) check_close(found.master.to(kCpu), expected.master, 1e-5, "master");
}

/// A float32 and a bfloat16 parameter of several chunks, with weight decays of their own.
std::vector<AdamWParameter> some_parameters(Device device) {
  std::vector<AdamWParameter> list = {parameter(20000, DType::kFloat32, device),
                                      parameter(40000, DType::kBFloat16, device),
                                      parameter(7, DType::kFloat32, device)};
  list[2].weight_decay = 0.0;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {  // by Lion
    list.push_back(parameter(20003, dtype, device));
    list.back().exp_avg_sq = Tensor();
  }
  return list;
}

/// All that an update may change, on the CPU.
std::vector<Tensor> state_of(const std::vector<AdamWParameter>& parameters) {
  std::vector<Tensor> state;
  for (const AdamWParameter& p : parameters) {
    for (const Tensor& part : {p.value, p.exp_avg, p.exp_avg_sq, p.exp_avg_sq_row, p.master})
      if (part.defined()) state.push_back(part.to(kCpu).clone());
  }
  return state;
}

AdamWParameter matrix_of_muon(DType dtype, Device device) {
  AdamWParameter matrix = parameter(130 * 150, dtype, device);
  for (Tensor* part : {&matrix.value, &matrix.grad, &matrix.exp_avg, &matrix.master}) {
    if (part->defined()) *part = part->reshape({130, 150});
  }
  matrix.exp_avg_sq = Tensor();
  matrix.orthogonal = true;
  return matrix;
}

/// A parameter that is updated by itself: two steps on the CPU and the GPU, weights within `tolerance` of
/// each other; by DeviceAdamW, at once and one by one, the same bits, and no change where there is no update.
void check_updates_alone(const std::function<AdamWParameter(Device)>& make, double learning_rate,
                         double tolerance) {
  const Device gpu = open_gpu();
  const AdamWParameter expected = make(kCpu), found = make(gpu), at_once = make(gpu), one_by_one = make(gpu);
  constexpr std::int64_t kSteps = 2;
  for (std::int64_t step = 1; step <= kSteps; ++step) {
    adamw({&expected, 1}, {.step = step, .learning_rate = learning_rate});
    adamw({&found, 1}, {.step = step, .learning_rate = learning_rate});
  }
  const auto master_of = [](const AdamWParameter& p) { return p.master.defined() ? p.master : p.value; };
  check_close(master_of(found).to(kCpu), master_of(expected), tolerance, "weights");
  const auto check_moment = [](const Tensor& on_gpu, const Tensor& on_cpu) {
    if (on_cpu.defined()) check_close(on_gpu.to(kCpu), on_cpu, 1e-6, "state");
  };
  check_moment(found.exp_avg, expected.exp_avg);
  check_moment(found.exp_avg_sq, expected.exp_avg_sq);
  check_moment(found.exp_avg_sq_row, expected.exp_avg_sq_row);
  const Tensor losses = tensor_of<double>({1}, {1.0}).to(gpu);
  const auto update_by = [&](const AdamWParameter& p, bool whole) {
    AdamWParameter listed = p;
    if (!whole) listed.grad = {};
    DeviceAdamW update({listed}, {}, 0.0);
    update.set_learning_rate(learning_rate);
    const auto once = [&](const Tensor& loss) {
      if (whole) return update.update(loss);
      update.begin(loss);
      update.update_one(0, p.grad);
      return update.finish();
    };
    for (std::int64_t step = 1; step <= kSteps; ++step) once(losses);
    const std::vector<Tensor> updated = state_of({p});
    once(full({1}, std::numeric_limits<double>::quiet_NaN(), DType::kFloat64, gpu));
    CHECK(same_bits(state_of({p}), updated));
  };
  update_by(at_once, true);
  update_by(one_by_one, false);
  CHECK(same_bits(state_of({at_once}), state_of({found})));
  CHECK(same_bits(state_of({one_by_one}), state_of({found})));
}

/// A GPU multiplies in bfloat16: directions differ by its rounding, in five steps.
void check_muon(DType dtype) {
  constexpr double kRate = 0.5;
  check_updates_alone([&](Device device) { return matrix_of_muon(dtype, device); }, kRate,
                      2 * 0.02 * kRate * 0.2 * std::sqrt(150.0));
}

/// Adafactor's parameter of this shape.
AdamWParameter of_adafactor(const Shape& shape, DType dtype, Device device) {
  AdamWParameter p = parameter(shape.numel(), dtype, device);
  for (Tensor* part : {&p.value, &p.grad, &p.master}) {
    if (part->defined()) *part = part->reshape(shape);
  }
  const AdafactorShapes state = adafactor_shapes(shape);
  p.exp_avg = {};
  p.exp_avg_sq = zeros(state.exp_avg_sq, DType::kFloat32, device);
  p.exp_avg_sq_row = zeros(state.exp_avg_sq_row, DType::kFloat32, device);
  return p;
}

void check_adafactor(DType dtype) {
  for (const Shape& shape : {Shape{70, 45}, Shape{3, 600}, Shape{700}, Shape{2, 3, 5}})
    check_updates_alone([&](Device device) { return of_adafactor(shape, dtype, device); }, 0.1, 1e-5);
}

/// The update of DeviceAdamW, step by step on the CPU.
double update_on_cpu(const std::vector<AdamWParameter>& parameters, AdamWStep step, double max_norm) {
  std::vector<Tensor> grads;
  for (const AdamWParameter& p : parameters) grads.push_back(p.grad);
  const double norm = grad_norm(grads);
  if (max_norm > 0) step.grad_scale = clip_factor(norm, max_norm);
  adamw(parameters, step);
  return norm;
}

void check_device_adamw(double max_norm) {
  const Device gpu = open_gpu();
  const std::vector<AdamWParameter> expected = some_parameters(kCpu), found = some_parameters(gpu);
  AdamWStep step{.step = 5, .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8};
  DeviceAdamW update(found, {step.beta1, step.beta2, step.epsilon}, max_norm);
  update.set_steps(step.step - 1);
  const Tensor losses = tensor_of<double>({2}, {1.5, 2.5}).to(gpu);
  for (; step.step < 8; ++step.step) {
    step.learning_rate *= 0.5;
    update.set_learning_rate(step.learning_rate);
    const Tensor outcome = update.update(losses).to(kCpu);
    CHECK(outcome.data<double>()[0] == Approx(update_on_cpu(expected, step, max_norm)).epsilon(1e-12));
    CHECK(outcome.data<double>()[1] == 1.0);
  }
  const std::vector<Tensor> on_cpu = state_of(expected), on_gpu = state_of(found);
  for (std::size_t i = 0; i < on_cpu.size(); ++i)
    check_close(on_gpu[i], on_cpu[i], on_cpu[i].dtype() == DType::kBFloat16 ? 0x1p-6 : 1e-5, "state");
}

/// Updates one by one, as gradients come, are those of all at once without clipping.
void check_updates_one_by_one() {
  const Device gpu = open_gpu();
  const std::vector<AdamWParameter> at_once = some_parameters(gpu);
  std::vector<AdamWParameter> one_by_one = some_parameters(gpu);
  std::vector<Tensor> grads;
  for (AdamWParameter& parameter : one_by_one) grads.push_back(std::exchange(parameter.grad, {}));
  DeviceAdamW expected(at_once, {}, 0.0), found(one_by_one, {}, 0.0);
  for (DeviceAdamW* each : {&expected, &found}) each->set_learning_rate(0.1);
  const Tensor losses = tensor_of<double>({1}, {1.0}).to(gpu);
  const auto update_all = [&] {
    found.begin(losses);
    for (std::size_t i = 0; i < grads.size(); ++i) found.update_one(i, grads[i]);
    return found.finish().to(kCpu);
  };
  const Tensor outcome = update_all(), outcome_at_once = expected.update(losses).to(kCpu);
  CHECK(outcome.data<double>()[0] == Approx(outcome_at_once.data<double>()[0]).epsilon(1e-12));
  CHECK(outcome.data<double>()[1] == 1.0);
  CHECK(same_bits(state_of(one_by_one), state_of(at_once)));
  grads[1].slice(39999, 40000).fill(std::numeric_limits<double>::quiet_NaN());
  CHECK(update_all().data<double>()[1] == 0.0);
}

/// The norm is that of all parts, of which the parameters are one.
void check_norm_of_all_parts() {
  const Device gpu = open_gpu();
  const std::vector<AdamWParameter> parameters = some_parameters(gpu), again = some_parameters(gpu);
  const DeviceAdamW whole(parameters, {}, 1.0), part(again, {}, 1.0);
  const Tensor losses = tensor_of<double>({1}, {1.0}).to(gpu);
  const Tensor expected = whole.update(losses).to(kCpu);
  const Tensor found = part.update(losses,
                                   [](const Tensor& own) {
                                     Tensor all = empty({4}, DType::kFloat64, own.device());
                                     for (int i = 0; i < 4; ++i) all.slice(i, i + 1).copy_from(own);
                                     return all;
                                   })
                           .to(kCpu);
  CHECK(found.data<double>()[0] == Approx(2 * expected.data<double>()[0]).epsilon(1e-12));
}

/// An update with such losses and such a number among the gradients changes nothing and does not count.
void check_refused_update(double loss, double gradient) {
  const Device gpu = open_gpu();
  const std::vector<AdamWParameter> parameters = some_parameters(gpu), again = some_parameters(gpu);
  DeviceAdamW update(parameters, {}, 1.0), reference(again, {}, 1.0);
  for (DeviceAdamW* each : {&update, &reference}) each->set_learning_rate(0.1);
  const Tensor good = tensor_of<double>({1}, {1.0}).to(gpu);
  const std::vector<Tensor> before = state_of(parameters);
  const Tensor grads = parameters[1].grad.clone();
  if (!std::isfinite(gradient)) parameters[1].grad.slice(39999, 40000).fill(gradient);
  const Tensor outcome = update.update(tensor_of<double>({2}, {1.0, loss}).to(gpu)).to(kCpu);
  CHECK(outcome.data<double>()[1] == 0.0);
  CHECK(same_bits(state_of(parameters), before));
  parameters[1].grad.copy_from(grads);
  CHECK(update.update(good).to(kCpu).data<double>()[1] == 1.0);
  reference.update(good);
  CHECK_FALSE(same_bits(state_of(parameters), before));
  CHECK(same_bits(state_of(parameters), state_of(again)));  // it is the first step, not the second
}

/// Averages of float32 and bfloat16 tensors, of several chunks and of none.
std::vector<EmaParameter> some_averages(Device device) {
  std::vector<EmaParameter> list;
  for (const std::int64_t count : {40000, 0, 33}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16})
      list.push_back(
          {normal({count}, 1).to(DType::kFloat32).to(device), normal({count}, 2).to(dtype).to(device)});
  }
  return list;
}

void check_ema() {
  const Device gpu = open_gpu();
  const std::vector<EmaParameter> expected = some_averages(kCpu), found = some_averages(gpu);
  const EmaUpdate on_cpu(expected), on_gpu(found);
  for (const double decay : {0.0, 0.5, 0.9}) {
    on_cpu.update(decay);
    on_gpu.update(decay);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      check_close(found[i].average.to(kCpu), expected[i].average, 1e-6, "average");
      found[i].value.scale(0.5);
      expected[i].value.scale(0.5);
    }
  }
  const Tensor wide = zeros({3}, DType::kFloat64, gpu);
  CHECK_THROWS_AS(EmaUpdate({{wide, wide}}), DTypeError);
  CHECK_THROWS_AS(EmaUpdate({expected[0], found[0]}), DeviceError);
  CHECK_THROWS_AS(EmaUpdate({{expected[0].average, found[0].value}}), DeviceError);
}

}  // namespace

void check_tensors_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Tensor x = normal({7, 11}).to(DType::kFloat32), on_gpu = x.to(gpu);
    CHECK(on_gpu.device() == gpu);
    CHECK(same_elements<float>(on_gpu.to(kCpu), x, x.numel()));
    CHECK(same_elements<bfloat16>(on_gpu.to(DType::kBFloat16).to(kCpu), x.to(DType::kBFloat16), x.numel()));
    CHECK(same_elements<float>(on_gpu.slice(2, 5).clone().to(kCpu), x.slice(2, 5), 3 * 11));
    const Tensor sum = on_gpu.clone(), expected = x.clone();
    sum.add(on_gpu.to(DType::kBFloat16));
    sum.scale(0.75);
    expected.add(x.to(DType::kBFloat16));
    expected.scale(0.75);
    CHECK(same_elements<float>(sum.to(kCpu), expected, x.numel()));
    CHECK(full({}, 2.5, DType::kBFloat16, gpu).item() == 2.5);
    CHECK(full({3}, -4, DType::kInt64, gpu).select(1).item() == -4);
    // More parts than one launch takes, of all types.
    std::vector<Tensor> parts;
    for (int i = 0; i < 100; ++i) parts.push_back(full({i % 3}, i, static_cast<DType>(i % 6), gpu));
    const Tensor rows = full({2, 99}, -1, DType::kFloat64, gpu), on_cpu = rows.to(kCpu);
    copy_to_row(rows, full({}, 1, DType::kInt64, gpu), parts);
    for (Tensor& part : parts) part = part.to(kCpu);
    copy_to_row(on_cpu, full({}, 1, DType::kInt64), parts);
    CHECK(same_elements<double>(rows.to(kCpu), on_cpu, rows.numel()));
    CHECK(on_gpu.all_finite());
    on_gpu.select(6).slice(10, 11).fill(std::numeric_limits<double>::infinity());
    CHECK_FALSE(on_gpu.all_finite());
    CHECK_THROWS_AS(on_gpu.add(x), DeviceError);
  });
}

void check_indices_on_device() {
  const Device gpu = open_gpu();
  const IndexRange range{.bound = 5, .ignored = -100, .of = "rows of table"};
  const Tensor good = tensor_of<std::int32_t>({4}, {0, 4, -100, 2}).to(gpu);
  CHECK(checked_indices("embedding", "ids", good, gpu, range).to(kCpu).data<std::int64_t>()[2] == -100);
  const Tensor bad = tensor_of<std::int64_t>({3}, {1, 5, 2}).to(gpu);
  const Tensor replaced = checked_indices("embedding", "ids", bad, gpu, range);
  CHECK_THROWS_WITH(cuda::synchronize(),
                    "embedding: ids: expected 0 to 4 or -100 (rows of table), found 5 at element 1");
  CHECK_NOTHROW(cuda::synchronize());  // said once
  CHECK(replaced.to(kCpu).data<std::int64_t>()[1] == 0);
  CHECK(bad.to(kCpu).data<std::int64_t>()[1] == 5);
}

void check_top1_on_device() {
  const Device gpu = open_gpu();
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const Shape& shape : {Shape{1, 1}, Shape{9, 7}, Shape{5, 100}}) {
      // Few classes that differ, so that there are ties; one row of NaN.
      const Tensor logits = normal(shape).to(DType::kFloat32), targets = empty_like(logits);
      for (std::int64_t i = 0; i < logits.numel(); ++i) {
        logits.data<float>()[i] = std::round(logits.data<float>()[i]);
        targets.data<float>()[i] = static_cast<float>(i * 7 % shape[1] == 0);
      }
      std::fill_n(logits.data<float>(), shape[1], std::numeric_limits<float>::quiet_NaN());
      const Tensor x = logits.to(dtype);
      const double expected = top1_share(x, targets).item();
      const Tensor classes = top1(x);
      in_each_way([&](const std::string& way) {
        INFO(way << ", " << to_string(shape));
        CHECK(top1_share(x.to(gpu), targets.to(gpu)).to(kCpu).item() == expected);
        CHECK(same_bits(top1(x.to(gpu)).to(kCpu), classes));
      });
    }
  }
}

void check_window_pool_on_device() {
  const NoGrad no_grad;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const PoolKind kind : {PoolKind::kMax, PoolKind::kMean}) {
      for (const std::int64_t channels : {std::int64_t{5}, std::int64_t{32}}) {
        const Tensor x = normal({2, 9, 7, channels}).to(dtype);
        for (const WindowPoolOptions& options :
             {WindowPoolOptions{kind, 3, 2, 0}, WindowPoolOptions{kind, 3, 1, 1}}) {
          const Tensor expected = window_pool(Variable(x), options).value(),
                       found = window_pool(Variable(x.to(open_gpu())), options).value();
          check_close(found.to(kCpu), expected, dtype == DType::kBFloat16 ? 0x1p-8 : 1e-6, "pooled");
        }
      }
    }
  }
}

void check_balance_bias_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    for (const std::int64_t groups : {1, 3}) {
      INFO(way << ", " << groups << " groups");
      const Tensor rows = normal({4, 45}, 1), bias = normal({42}, 2).to(DType::kFloat32);
      const Tensor found = bias.to(gpu), on_gpu = rows.to(gpu);
      const Tensor go = full({1}, 1.0, DType::kFloat64), stop = full({1}, 0.0, DType::kFloat64);
      update_balance_bias(found, {on_gpu, 2}, groups, 0.01, stop.to(gpu));
      CHECK(same_bits(found.to(kCpu), bias));
      update_balance_bias(found, {on_gpu, 2}, groups, 0.01, go.to(gpu));
      const Tensor before = bias.clone();
      update_balance_bias(bias, {rows, 2}, groups, 0.01, go);
      CHECK_FALSE(same_bits(bias, before));
      CHECK(same_bits(found.to(kCpu), bias));
      CHECK_THROWS_AS(update_balance_bias(found, {rows, 2}, groups, 0.01), DeviceError);
    }
  });
}

void check_router_statistics_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    for (const RouterStatisticsSizes& sizes : kRouterStatisticsSizes)
      check_router_statistics(sizes, DType::kFloat32, gpu);
  });
}

/// Checks the rows up to the last offset: a GPU's tensor may be longer.
void check_same_lists(const HeadLists& found, const HeadLists& expected) {
  const Tensor offsets = found.offsets.to(kCpu), rows = found.rows.to(kCpu);
  CHECK(same_elements<std::int64_t>(offsets, expected.offsets, offsets.numel()));
  REQUIRE(rows.numel() >= expected.num_rows());
  CHECK(same_elements<std::int32_t>(rows, expected.rows, expected.num_rows()));
}

/// A selection of half of the heads of each token, rounded up, others for each, of any nonzero bytes.
Tensor selection_of_each(const Shape& shape) {
  Tensor selected = full(shape, 0, DType::kUInt8);
  const std::int64_t heads = shape[2];
  for (std::int64_t t = 0; t < shape[0] * shape[1]; ++t) {
    for (std::int64_t i = 0; i < (heads + 1) / 2; ++i)
      selected.data<std::uint8_t>()[t * heads + (t * 7 + 2 * i + (2 * i >= heads)) % heads] =
          static_cast<std::uint8_t>(1 + (t * 37 + i * 91) % 255);
  }
  return selected;
}

void check_head_lists_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    for (const Shape& shape :
         {Shape{1, 1, 1}, Shape{2, 70, 6}, Shape{1, 300, 4}, Shape{3, 256, 8}, Shape{2, 0, 2}}) {
      for (const std::int64_t kv_heads : {shape[2], shape[2] % 2 == 0 ? shape[2] / 2 : 1}) {
        INFO(way << ", " << to_string(shape) << ", " << kv_heads << " KV heads");
        const Tensor selected = selection(shape);
        const HeadLists expected = build_head_lists(selected, kv_heads);
        check_same_lists(build_head_lists(selected.to(gpu), kv_heads), expected);
        const Tensor as_many = selection_of_each(shape);
        check_same_lists(
            build_head_lists(as_many.to(gpu), kv_heads, HeadsPerToken((shape[2] + 1) / 2, /*is_exact=*/true)),
            build_head_lists(as_many, kv_heads));
      }
    }
  });
  const Tensor all = full({1, 4, 3}, 1, DType::kUInt8, gpu);
  CHECK(build_head_lists(all, 3, 3).offsets.to(kCpu).data<std::int64_t>()[3] == 12);
  const HeadLists cut = build_head_lists(all, 3, 2);
  CHECK_THROWS_WITH(cuda::synchronize(),
                    Catch::Contains("build_head_lists: selected: expected at most 8 pairs, found 12"));
  CHECK(cut.offsets.to(kCpu).data<std::int64_t>()[3] == 8);
  const Tensor other = full({2, 4, 3}, 1, DType::kUInt8);
  other.data<std::uint8_t>()[1] = 0;
  const HeadLists wrong = build_head_lists(other.to(gpu), 3, HeadsPerToken(3, /*is_exact=*/true));
  CHECK_THROWS_WITH(
      cuda::synchronize(),
      Catch::Contains("build_head_lists: selected: expected 12 pairs in each sequence, found 11"));
}

void check_bias_kernels_on_device() {
  const Device gpu = open_gpu();
  constexpr std::int64_t kRows = 37, kWidth = 5, kStride = 8;
  const Tensor bias = normal({kWidth}, 1).to(DType::kFloat32);
  const Tensor y = normal({kRows, kStride}, 2).to(DType::kFloat32);
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Tensor found = y.to(gpu).clone(), sums = empty({kWidth}, DType::kFloat32, gpu);
    LinearKernels<Cuda, float>::add_bias(bias.to(gpu).data<float>(), found.data<float>(), {kRows, kWidth},
                                         kStride);
    LinearKernels<Cuda, float>::sum_rows(found.data<float>(), sums.data<float>(), {kRows, kWidth}, kStride);
    const Tensor expected = y.clone(), expected_sums = full({kWidth}, 0, DType::kFloat32);
    for (std::int64_t i = 0; i < kRows; ++i) {
      for (std::int64_t j = 0; j < kWidth; ++j)
        expected_sums.data<float>()[j] += expected.data<float>()[i * kStride + j] += bias.data<float>()[j];
    }
    CHECK(same_elements<float>(found.to(kCpu), expected, expected.numel()));
    check_close(sums.to(kCpu), expected_sums, 1e-4, "sums");
  });
}

void check_gelu_mlp_kernels_on_device() {
  const Device gpu = open_gpu();
  constexpr Rows kRows{5, 13};
  const Tensor product = normal({kRows.count, kRows.width}, 1).to(DType::kFloat32);
  const Tensor bias = normal({kRows.width}, 2).to(DType::kFloat32);
  const auto run = [&]<class Backend>(GeluForm form, bool adds, bool keeps, Device device) {
    const Tensor y = product.to(device).clone(), b = bias.to(device), h = empty_like(y), dy = y.clone();
    GeluMlpKernels<Backend, float>::forward(y.data<float>(), adds ? b.data<float>() : nullptr,
                                            keeps ? h.data<float>() : nullptr, y.data<float>(), kRows, form);
    std::vector<Tensor> results = {y.to(kCpu)};
    if (!keeps) return results;
    results.push_back(h.clone().to(kCpu));
    GeluMlpKernels<Backend, float>::backward(dy.data<float>(), h.data<float>(), h.numel(), form);
    results.push_back(h.to(kCpu));
    results.push_back(dy.to(kCpu));
    return results;
  };
  in_each_way([&](const std::string& way) {
    for (const GeluForm form : {GeluForm::kExact, GeluForm::kTanh}) {
      for (const auto& [adds_bias, keeps_h] :
           {std::pair(true, true), {true, false}, {false, true}, {false, false}}) {
        const bool adds = adds_bias, keeps = keeps_h;  // Clang 14 captures no structured bindings
        INFO(way << ", form " << static_cast<int>(form) << (adds ? ", bias" : "") << (keeps ? ", h" : ""));
        const auto found = run.operator()<Cuda>(form, adds, keeps, gpu);
        const auto expected =
            visit_cpu_isa([&]<class Backend>() { return run.operator()<Backend>(form, adds, keeps, kCpu); });
        for (std::size_t i = 0; i < expected.size(); ++i)
          check_close(found[i], expected[i], 2e-6, std::to_string(i));
      }
    }
  });
}

void check_optimizer_on_device() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    check_adamw(DType::kFloat32);
    check_adamw(DType::kBFloat16);
    check_muon(DType::kFloat32);
    check_muon(DType::kBFloat16);
    check_adafactor(DType::kFloat32);
    check_adafactor(DType::kBFloat16);
    const std::vector<Tensor> grads = {normal({20000}, 1).to(DType::kFloat32),
                                       normal({33}, 2).to(DType::kBFloat16)};
    const std::vector<Tensor> on_gpu = {grads[0].to(gpu), grads[1].to(gpu)};
    CHECK(grad_norm(on_gpu) == Approx(grad_norm(grads)).epsilon(1e-12));
    check_device_adamw(0.0);
    check_device_adamw(1.0);
    check_refused_update(NAN, 1.0);
    check_refused_update(1.0, INFINITY);
    check_refused_update(1.0, NAN);
    check_updates_one_by_one();
    check_norm_of_all_parts();
    check_ema();
  });
  CHECK_THROWS_AS(DeviceAdamW({parameter(3, DType::kFloat64, gpu)}, {}, 1.0), DTypeError);
}

void check_dropout_keys_on_device() {
  const Device gpu = open_gpu();
  const Variable x(full({33, 4}, 1.0, DType::kFloat32)), on_gpu(x.value().to(gpu));
  const Tensor first_stream = zeros({}, DType::kInt64, gpu);
  for (const std::uint64_t step : {0, 1, 77}) {
    first_stream.fill(static_cast<double>(Generator::first_stream_of(step)));
    Generator expected(3, step), found(3, first_stream);
    for (int use = 0; use < 2; ++use) {
      const Tensor here = dropout(x, 0.5, expected.next()).value();
      CHECK(same_elements<float>(dropout(on_gpu, 0.5, found.next()).value().to(kCpu), here, here.numel()));
      const Tensor samples = drop_path(x, 0.5, expected.next()).value();
      CHECK(
          same_elements<float>(drop_path(on_gpu, 0.5, found.next()).value().to(kCpu), samples, here.numel()));
    }
  }
}

void check_host_copies() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    const Tensor x = tensor_of<double>({3}, {1, 2, 3}).to(gpu);
    HostCopy first(x);
    x.fill(7);
    HostCopy second(x);
    x.fill(8);
    CHECK(second.get().data<double>()[2] == 7);
    CHECK(first.get().data<double>()[2] == 3);
    CHECK(first.get().data<double>()[0] == 1);  // as often as one likes
    HostCopy third(x), nothing(x.slice(1, 1));
    CHECK(third.get().data<double>()[1] == 8);
    CHECK(nothing.get().numel() == 0);
  });
}

void check_uploads() {
  const Device gpu = open_gpu();
  in_each_way([&](const std::string& way) {
    INFO(way);
    // More than the page-locked memory through which they go, in pieces that do not divide it.
    std::vector<Tensor> sent;
    for (int i = 0; i < 9; ++i) sent.push_back(full({700001}, i, DType::kFloat32).to(gpu));
    for (int i = 0; i < 300; ++i) sent.push_back(full({3}, i, DType::kFloat32).to(gpu));
    sent.push_back(full({5000001}, 309, DType::kFloat32).to(gpu));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      const Tensor found = sent[i].to(kCpu);
      const float expected = static_cast<float>(i < 9 || i == 309 ? i : i - 9);
      const auto values = found.span<float>();
      CHECK(std::count(values.begin(), values.end(), expected) == found.numel());
    }
  });
}

TEST_CASE("device: copies to the device come out whole, however many are under way", "[device]") {
  check_uploads();
}
TEST_CASE("device: dropout and drop_path draw from the stream that device memory names", "[device]") {
  check_dropout_keys_on_device();
}
TEST_CASE("device: copies to the host hold what a tensor held when they were asked for", "[device]") {
  check_host_copies();
}

void check_clock_on_device() {
  DeviceClock clock(open_gpu());
  const Tensor tensor = empty({1 << 16}, DType::kFloat32, open_gpu());
  for (int round = 0; round < 2; ++round) {
    clock.mark();
    tensor.fill(1);
    clock.mark();
    for (int i = 0; i < 100; ++i) tensor.scale(1.01);
    clock.mark();
    const double one = clock.seconds(0, 1), hundred = clock.seconds(1, 2);
    CHECK(one > 0);
    if (round > 0) CHECK(hundred > one);  // a GPU loads kernels when they are first used
    CHECK(clock.seconds(0, 2) == Approx(one + hundred).margin(2e-6));
    clock.clear();
  }
  CHECK(cuda::cache_bytes() > 0);
  CHECK_FALSE(cuda::product_name().empty());
}

TEST_CASE("device: a clock measures what the device does", "[device]") {
  check_clock_on_device();
}
TEST_CASE("device: tensors are filled, converted, added and copied", "[device]") {
  check_tensors_on_device();
}
TEST_CASE("device: indices out of range are reported by the next wait", "[device]") {
  check_indices_on_device();
}
TEST_CASE("device: the accuracy of a batch is that of the CPU", "[device]") {
  check_top1_on_device();
}
TEST_CASE("device: windows are pooled as on the CPU", "[device]") {
  check_window_pool_on_device();
}
TEST_CASE("device: biases of the selection are updated as on the CPU", "[device]") {
  check_balance_bias_on_device();
}
TEST_CASE("device: statistics of a router are those of the CPU", "[device]") {
  check_router_statistics_on_device();
}
TEST_CASE("device: head lists are those of the CPU", "[device]") {
  check_head_lists_on_device();
}
TEST_CASE("device: a bias is added to rows, and rows are summed", "[device]") {
  check_bias_kernels_on_device();
}
TEST_CASE("device: GELU with a bias, and with its gradient, agrees with the CPU", "[device]") {
  check_gelu_mlp_kernels_on_device();
}
TEST_CASE("device: AdamW, the gradient norm and moving averages agree with the CPU", "[device]") {
  check_optimizer_on_device();
}

}  // namespace moh::test
