#include "train/apps/bench/op_bench.h"

#include <algorithm>
#include <cstdio>
#include <string_view>

#include "core/allocator.h"
#include "core/cpu_isa.h"
#include "core/cuda/backend.h"
#include "core/parallel.h"
#include "ops/linalg/matmul.h"
#include "train/apps/bench/op_cases.h"
#include "train/base/math/statistics.h"
#include "train/base/measure/ceilings.h"
#include "train/base/measure/pass_timer.h"
#include "train/base/measure/require_option.h"

namespace moh {

namespace {

constexpr std::string_view kOpBench = "bench ops", kMatmul = "matmul", kConvolution = "convolution";

/// The model's name, the first word of a layer's.
std::string model_of(const std::string& layer) {
  return layer.substr(0, layer.find(' '));
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const StreamingFamily& family : streaming_families()) names.emplace_back(family.op);
  const auto add_models = [&](std::string_view op, const auto& layers) {
    names.emplace_back(op);
    for (const auto& layer : layers) {
      if (names.back() != model_of(layer.model)) names.push_back(model_of(layer.model));
    }
  };
  add_models(kMatmul, linear_shapes());
  add_models(kConvolution, convolutions());
  return names;
}

void check(const OpBenchOptions& o) {
  require_option(is_floating(o.dtype), kOpBench, "dtype", "a floating dtype", dtype_name(o.dtype));
  require_option(o.megabytes >= 1 && o.megabytes <= 1 << 16, kOpBench, "megabytes", "1 to 65536",
                 o.megabytes);
  require_option(o.repeats >= 1, kOpBench, "repeats", "1 or more", o.repeats);
  require_option(o.seconds > 0, kOpBench, "seconds", "more than 0", o.seconds);
  const std::vector<std::string> known = known_names();
  std::string expected = "one of ";
  for (const std::string& name : known) expected += (name == known.front() ? "" : ", ") + name;
  for (const std::string& name : o.only) {
    require_option(std::ranges::find(known, name) != known.end(), kOpBench, "only", expected, name);
  }
}

bool wanted(const OpBenchOptions& o, std::string_view name) {
  return o.only.empty() || std::ranges::find(o.only, name) != o.only.end();
}

/// The measured rate of the device that cases are compared with.
struct Ceiling {
  const char* unit;
  double rate;
};

/// The text fields of a row.
struct Subject {
  std::string op, pass, shape;
  std::string model = {};
};

class Bench {
 public:
  Bench(const OpBenchOptions& options, const std::function<void(const Row&)>& on_row)
      : options_(options), on_row_(on_row), bytes_(options.megabytes << 20), timer_(options.device) {
    const Ceilings ceilings = measure_ceilings(options.device, options.dtype);
    // On the CPU a large GEMM does not reach the peak, which FMA on registers does.
    products_.rate = ceilings.fma_gflops.value_or(ceilings.matmul_gflops);
    const CopyRates copy = measure_copy_rates(static_cast<std::size_t>(bytes_), options.device);
    memory_.rate = copy.stores;
    report_ceilings(copy, ceilings);
  }

  void run_streaming(const StreamingFamily& family) {
    if (options_.device == kCpu)
      memory_.rate = measure_copy_rates(static_cast<std::size_t>(bytes_), kCpu).stores;
    const StreamingCase op = family.make({options_.dtype, options_.device}, bytes_);
    const std::vector<Tensor> seeds = StreamingCase::seeds_of(op.forward());
    const PassTimes times = repeat(op.forward, [&](const std::vector<Variable>& results) {
      if (op.backward_bytes > 0) backward(results, seeds);
    });
    const std::string name(family.op);
    report({name, "forward", op.shape}, times.forward, op.forward_bytes, memory_);
    if (op.backward_bytes > 0)
      report({name, "backward", op.shape}, times.backward, op.backward_bytes, memory_);
  }

  /// The three GEMMs of a linear layer in training.
  void run_linear(const LinearShape& s) {
    measure_products_again();
    const Tensor x = random_matrix(s.tokens, s.in), w = random_matrix(s.out, s.in),
                 y = random_matrix(s.tokens, s.out);
    const DType summed = accumulate_dtype(options_.dtype);  // dtype of parameters' gradients
    run_product("forward NT", s.model, s.tokens, s.out, s.in, {x}, transposed(w), options_.dtype);
    run_product("input NN", s.model, s.tokens, s.in, s.out, {y}, {w}, options_.dtype);
    run_product("weight TN", s.model, s.out, s.in, s.tokens, transposed(y), {x}, summed);
  }

  void run_convolution(const Convolution& c) {
    measure_products_again();
    const auto random = [&](const Shape& shape) {
      return op_cases::random_tensor(shape, {options_.dtype, options_.device}, 1);
    };
    const Tensor x = random(c.images()), w = random(c.weight()), b = random({c.outputs});
    const auto forward = [&] {
      return conv2d(c.is_first ? Variable(x) : op_cases::input(x), op_cases::input(w), op_cases::input(b),
                    c.options);
    };
    const Shape result = forward().shape();
    const Tensor seed = random(result);
    const PassTimes times = repeat(forward, [&](const Variable& y) { y.backward(seed); });
    // A multiply-add of each output and weight; backward for the gradients of both factors.
    const std::int64_t values = w.numel() / c.outputs;  // that an output reads
    const double flops = 2 * static_cast<double>(result.numel()) * static_cast<double>(values);
    const std::string stride =
        c.options.stride.y == 1 ? "" : ", stride " + std::to_string(c.options.stride.y);
    const std::string name(kConvolution),
        shape = to_string(x.shape()) + " * " + to_string(w.shape()) + stride;
    report({name, "forward", shape, c.model}, times.forward, flops, products_);
    report({name, "backward", shape, c.model}, times.backward, (c.is_first ? 1 : 2) * flops, products_);
  }

 private:
  /// A shared host changes its clock rate from minute to minute: a ceiling of the same seconds is comparable.
  void measure_products_again() {
    if (options_.device == kCpu) products_.rate = measure_fma_gflops(options_.dtype);
  }

  void run_product(const std::string& pass, const std::string& model, std::int64_t m, std::int64_t n,
                   std::int64_t k, const Operand& a, const Operand& b, DType dtype) {
    Tensor c = empty({m, n}, dtype, options_.device);
    const auto multiply = [&] {
      matmul_into(c, a, b);
      return c;
    };
    const PassTimes times = repeat(multiply, [](const Tensor&) {});
    const std::string shape = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    const double flops = 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    report({std::string(kMatmul), pass, shape, model}, times.forward, flops, products_);
  }

  Tensor random_matrix(std::int64_t rows, std::int64_t columns) const {
    return op_cases::random_tensor({rows, columns}, {options_.dtype, options_.device}, 1);
  }

  void report_ceilings(const CopyRates& copy, const Ceilings& products) {
    const std::string size = std::to_string(options_.megabytes) + " MiB";
    const std::string square = "square, " + std::string(dtype_name(options_.dtype));
    report({"copy", "", size}, DType::kFloat32, copy.stores, memory_);
    if (copy.memcpy) report({"memcpy", "", size}, DType::kFloat32, *copy.memcpy, memory_);
    if (products.fma_gflops)
      report({"fma", "", "registers"}, options_.dtype, *products.fma_gflops, products_);
    report({"matmul peak", "", square}, options_.dtype, products.matmul_gflops, products_);
    if (products.published_gflops)
      report({"published peak", "", cuda::product_name()}, options_.dtype, *products.published_gflops,
             products_);
  }

  /// `work`: bytes or floating-point operations of a run.
  void report(const Subject& subject, const std::vector<double>& ms, double work, const Ceiling& ceiling) {
    report(subject, options_.dtype, work / median(ms) * 1e-6, ceiling, ms);
  }

  /// `ms`: empty for a ceiling.
  void report(const Subject& subject, DType dtype, double rate, const Ceiling& ceiling,
              const std::vector<double>& ms = {}) const {
    Row row;
    const auto add_time = [&](const char* name, double (*of)(const std::vector<double>&),
                              Row::Column column) {
      row.add(name, ms.empty() ? 0 : of(ms));
      row.show(column, ms.empty() ? Row::Value("") : of(ms));
    };
    char rate_in_unit[32];
    std::snprintf(rate_in_unit, sizeof rate_in_unit, "%8.1f %s", rate, ceiling.unit);
    row.add("op", subject.op, {"op", {}, -19});
    row.add("model", subject.model);
    row.add("pass", subject.pass);
    row.add("shape", subject.shape, {"shape", {}, -24});
    row.show({"pass", {}, -10}, subject.pass);
    row.add("device", device_name(options_.device));
    row.add("dtype", std::string(dtype_name(dtype)));
    row.add("isa", std::string(cpu_isa_name(cpu_isa())));
    row.add("threads", num_threads());
    add_time("ms", median, {"ms", Row::fixed(3), 10});
    add_time("spread", relative_spread, {"spread", Row::percent(1)});
    row.add("unit", ceiling.unit);
    row.add("rate", rate);
    row.show({"    rate", {}, -17}, rate_in_unit);
    row.add("ceiling", ceiling.rate);
    row.add("share", rate / ceiling.rate, {"share", Row::percent(1), 7});
    row.show({"model"}, subject.model);
    on_row_(row);
  }

  /// Times runs of both passes: a warm-up, then one that determines how many fit in options_.seconds. On a
  /// GPU the remaining ones are enqueued without waiting for any of them.
  template <class Forward, class Backward>
  PassTimes repeat(const Forward& forward, const Backward& backward) {
    constexpr double kLeast = 3;  // runs, even if they take longer than options_.seconds
    timer_.pass(forward, backward);
    timer_.forget();
    timer_.pass(forward, backward);
    const double affordable = options_.seconds / std::max(timer_.times().both.front() * 1e-3, 1e-9);
    const double most = std::min<double>(options_.repeats, std::max(kLeast, affordable));
    for (double done = 1; done + 1 <= most; ++done) timer_.pass(forward, backward);
    PassTimes times = timer_.times();
    timer_.forget();
    return times;
  }

  const OpBenchOptions& options_;
  const std::function<void(const Row&)>& on_row_;
  std::int64_t bytes_;
  PassTimer timer_;
  Ceiling memory_{"GB/s", 0}, products_{"GFLOP/s", 0};
};

}  // namespace

void run_op_bench(const OpBenchOptions& options, const std::function<void(const Row&)>& on_row) {
  check(options);
  open_device(options.device);
  Bench bench(options, on_row);
  for (const StreamingFamily& family : streaming_families()) {
    if (wanted(options, family.op)) bench.run_streaming(family);
  }
  CpuAllocator::instance().trim();  // frees cached blocks, whose sizes GEMMs cannot use
  const auto wants = [&](std::string_view op, const std::string& layer) {
    return wanted(options, op) || wanted(options, model_of(layer));
  };
  for (const LinearShape& shape : linear_shapes()) {
    if (wants(kMatmul, shape.model)) bench.run_linear(shape);
  }
  for (const Convolution& convolution : convolutions()) {
    if (wants(kConvolution, convolution.model)) bench.run_convolution(convolution);
  }
}

}  // namespace moh
