#include <memory>

#include "ops/optim/adamw.h"
#include "ops/optim/clip_grad_norm.h"
#include "ops/optim/ema.h"
#include "train/apps/bench/op_cases.h"

namespace moh::op_cases {

namespace {

StreamingCase make_adamw(Placement placement, std::int64_t bytes) {
  const DType wide = accumulate_dtype(placement.dtype);
  const Placement in_wide(wide, placement.device);
  AdamWParameter p{random_items({kWidth}, placement, bytes), {}, {}, {}, {}, 0.1};
  p.grad = random_tensor(p.value.shape(), in_wide, 2);
  p.exp_avg = zeros(p.value.shape(), wide, placement.device);
  p.exp_avg_sq = zeros(p.value.shape(), wide, placement.device);
  // Reads the gradient, reads and writes both moments and the value; with a master copy, the master is read
  // and written, and the value only written.
  double moved = 5 * bytes_of(p.grad) + 2 * bytes_of(p.value);
  if (wide != placement.dtype) {
    p.master = p.value.to(wide);
    moved = 7 * bytes_of(p.grad) + bytes_of(p.value);
  }
  return {to_string(p.value.shape()), moved, 0, [=] { adamw({&p, 1}, {.step = 1}); }};
}

StreamingCase make_grad_norm(Placement placement, std::int64_t bytes) {
  const Tensor grad = random_items({kWidth}, placement, bytes);
  return {to_string(grad.shape()), bytes_of(grad), 0, [=] { grad_norm({&grad, 1}); }};
}

/// Reads the value, reads and writes its average.
StreamingCase make_ema(Placement placement, std::int64_t bytes) {
  const Tensor value = random_items({kWidth}, placement, bytes);
  const Tensor average = value.to(accumulate_dtype(placement.dtype)).clone();
  const auto update = std::make_shared<EmaUpdate>(std::vector<EmaParameter>{{average, value}});
  return {to_string(value.shape()), bytes_of(value) + 2 * bytes_of(average), 0,
          [=] { update->update(0.999); }};
}

}  // namespace

std::vector<StreamingFamily> of_updates() {
  return {{"grad_norm", make_grad_norm}, {"adamw", make_adamw}, {"ema", make_ema}};
}

}  // namespace moh::op_cases
