#include "train/trainer/optim/adamw.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/random.h"
#include "tests/support/same_bits.h"

using namespace moh;

namespace {

NamedParameter parameter(const std::string& name, const Shape& shape, DType dtype = DType::kFloat32) {
  const Tensor value = empty(shape, dtype);
  fill_normal(value, initialisation_key(1, name), 0.0, 1.0);
  return {name, Variable(value, true)};
}

void set_gradient(NamedParameter& p, std::uint64_t seed) {
  const Tensor gradient = empty(p.variable.shape(), DType::kFloat32);
  fill_normal(gradient, {seed, 0}, 0.0, 1.0);
  p.variable.zero_grad();
  p.variable.accumulate_grad(gradient);
}

/// An update whose loss is finite.
void step(AdamW& optimizer, double learning_rate) {
  optimizer.set_learning_rate(learning_rate);
  optimizer.update(zeros({1}, DType::kFloat64));
  optimizer.count_update();
}

}  // namespace

TEST_CASE("optim: matrices are decayed, what has one axis is not") {
  NamedParameter matrix = parameter("w", {2, 3}), norm = parameter("norm.weight", {3});
  const float w = matrix.variable.value().data<float>()[0], n = norm.variable.value().data<float>()[0];
  AdamW optimizer({matrix, norm}, {.weight_decay = 0.5, .clip_grad_norm = 0});
  step(optimizer, 0.1);  // no gradients: only the decay moves anything
  CHECK(matrix.variable.value().data<float>()[0] == Approx(w * (1 - 0.1 * 0.5)));
  CHECK(norm.variable.value().data<float>()[0] == n);
}

TEST_CASE("optim: the state saved and loaded continues bit for bit") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    NamedParameter a = parameter("a", {4, 5}, dtype);
    AdamW first({a}, {.weight_decay = 0, .clip_grad_norm = 0});
    set_gradient(a, 1);
    step(first, 0.01);

    NamedParameter b{"a", Variable(a.variable.value().clone(), true)};
    AdamW second({b}, {.weight_decay = 0, .clip_grad_norm = 0});
    const std::vector<NamedTensor> saved = first.state(), loaded = second.state();
    CHECK(saved.size() == (dtype == DType::kBFloat16 ? 3 : 2));
    REQUIRE(loaded.size() == saved.size());
    for (std::size_t i = 0; i < saved.size(); ++i) {
      CHECK(loaded[i].name == saved[i].name);
      loaded[i].tensor.copy_from(saved[i].tensor);
    }
    second.set_steps(first.steps());
    for (auto [p, optimizer] : {std::pair{&a, &first}, std::pair{&b, &second}}) {
      set_gradient(*p, 2);
      step(*optimizer, 0.01);
    }
    CHECK(test::same_bits(a.variable.value(), b.variable.value()));
    CHECK(second.steps() == 2);
  }
}

TEST_CASE("optim: small updates are not lost in bfloat16: the float32 master copy keeps them") {
  NamedParameter p{"p", Variable(full({1, 1}, 1.0, DType::kBFloat16), true)};
  AdamW optimizer({p}, {.weight_decay = 0, .clip_grad_norm = 0});
  for (int i = 0; i < 100; ++i) {  // each step moves by 1e-4, a fortieth of the spacing of bfloat16 below 1
    p.variable.zero_grad();
    p.variable.accumulate_grad(full({1, 1}, 1.0, DType::kFloat32));
    step(optimizer, 1e-4);
  }
  CHECK(static_cast<float>(*p.variable.value().data<bfloat16>()) == Approx(0.99).margin(0.004));
  CHECK(*optimizer.state()[2].tensor.data<float>() == Approx(0.99).margin(1e-4));
}
