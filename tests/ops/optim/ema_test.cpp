#include "ops/optim/ema.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/op_run.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

EmaParameter averaged_parameter(const Shape& shape, DType dtype, std::uint64_t seed) {
  return {normal(shape, seed).to(accumulate_dtype(dtype)), normal(shape, seed + 100).to(dtype)};
}

/// Empty, a scalar, one past a vector, and more than a chunk, of every dtype.
std::vector<EmaParameter> some_averaged() {
  std::vector<EmaParameter> parameters;
  std::uint64_t seed = 0;
  for (const Shape& shape : {Shape{0}, Shape{}, Shape{17}, Shape{130, 131}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64})
      parameters.push_back(averaged_parameter(shape, dtype, ++seed));
  }
  return parameters;
}

/// The formula as it is written in papers, in float64.
void update_reference(const Tensor& average, const Tensor& value, double decay) {
  const Tensor wide = value.to(DType::kFloat64);
  for (std::int64_t i = 0; i < average.numel(); ++i) {
    double& a = average.data<double>()[i];
    a = decay * a + (1.0 - decay) * wide.data<double>()[i];
  }
}

}  // namespace

TEST_CASE("ops: ema follows its formula", "[every_isa]") {
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    INFO(cpu_isa_name(isa));
    const std::vector<EmaParameter> parameters = some_averaged();
    std::vector<Tensor> expected;
    for (const EmaParameter& p : parameters) expected.push_back(p.average.to(DType::kFloat64).clone());
    const EmaUpdate ema(parameters);
    for (const double decay : {0.0, 0.3, 0.9, 1.0}) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        update_reference(expected[i], parameters[i].value, decay);
      }
      ema.update(decay);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const bool wide = parameters[i].average.dtype() == DType::kFloat64;
        check_close(parameters[i].average, expected[i], wide ? 1e-15 : 1e-6,
                    "parameter " + std::to_string(i));
        parameters[i].value.scale(-0.75);
      }
    }
  }
}

TEST_CASE("ops: an average that equals its value stays equal, however close to 1 the decay is") {
  const Tensor value = normal({50}).to(DType::kFloat32), average = value.clone();
  const EmaUpdate ema({{average, value}});
  for (int i = 0; i < 1000; ++i) ema.update(0.9999);
  CHECK(std::memcmp(average.raw(), value.raw(), value.bytes()) == 0);
}

TEST_CASE("ops: a decay that lies in memory gives the bits of one that is passed") {
  const std::vector<EmaParameter> parameters = some_averaged(), others = some_averaged();
  const EmaUpdate passed(parameters), in_memory(others);
  const Tensor rate = zeros({}, DType::kFloat64);
  for (const double decay : {0.1, 2.0 / 11, 0.998}) {
    passed.update(decay);
    rate.fill(1 - decay);
    in_memory.update_by(rate);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Tensor &a = parameters[i].average, &b = others[i].average;
    CHECK((a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0));
  }
  const Tensor before = others[9].average.clone();
  in_memory.update_by(rate, zeros({}, DType::kFloat64));  // a step that was skipped
  CHECK(std::memcmp(before.raw(), others[9].average.raw(), before.bytes()) == 0);
}

TEST_CASE("ops: ema has the same bits with any number of threads") {
  const auto after = [](int threads) {
    set_num_threads(threads);
    const std::vector<EmaParameter> parameters = some_averaged();
    EmaUpdate(parameters).update(0.9);
    return parameters[9].average;
  };
  const int threads = num_threads();
  const Tensor one = after(1), three = after(3);
  set_num_threads(threads);
  CHECK(std::memcmp(one.raw(), three.raw(), one.bytes()) == 0);
}

TEST_CASE("ops: ema refuses what does not fit") {
  const Tensor value = normal({4}).to(DType::kBFloat16), average = zeros({4}, DType::kFloat32);
  const auto second = [&](const Tensor& a, const Tensor& v) { EmaUpdate({{average, value}, {a, v}}); };
  CHECK_THROWS_WITH(second(zeros({5}, DType::kFloat32), value),
                    "ema: parameter 1: average: expected shape [4] (that of value), found [5]");
  CHECK_THROWS_WITH(second(value, value), "ema: parameter 1: average: expected float32, found bfloat16");
  CHECK_THROWS_WITH(second(average, Tensor()), "ema: parameter 1: value: expected a tensor, found none");
  CHECK_THROWS_AS(second(Tensor(), value), ValueError);
  CHECK_THROWS_AS(second(average, zeros({4}, DType::kInt32)), DTypeError);
  const EmaUpdate ema({{average, value}});
  CHECK_THROWS_WITH(ema.update(1.5), "ema: decay: expected 0 to 1, found 1.5");
  CHECK_THROWS_AS(ema.update(-0.1), ValueError);
  CHECK_THROWS_AS(ema.update(NAN), ValueError);
  CHECK_NOTHROW(EmaUpdate({}).update(0.5));
}
