#include "train/bench/op_bench.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/allocator.h"
#include "core/cuda/backend.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "ops/linalg/matmul.h"
#include "train/bench/ceilings.h"
#include "train/bench/head_start.h"
#include "train/bench/op_cases.h"
#include "train/math/statistics.h"

namespace moh {

namespace {

constexpr std::string_view kMatmul = "matmul";

void require(bool condition, std::string_view option, std::string_view expected, const std::string& found) {
  if (!condition) throw ValueError(error_message("bench ops", option, expected, found));
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const StreamingFamily& family : streaming_families()) names.emplace_back(family.op);
  names.emplace_back(kMatmul);
  for (const LinearShape& shape : linear_shapes()) {
    const std::string model = shape.model.substr(0, shape.model.find(' '));
    if (names.back() != model) names.push_back(model);
  }
  return names;
}

void check(const OpBenchOptions& o) {
  require(is_floating(o.dtype), "dtype", "a floating dtype", std::string(dtype_name(o.dtype)));
  require(o.megabytes >= 1 && o.megabytes <= 1 << 16, "megabytes", "1 to 65536", std::to_string(o.megabytes));
  require(o.repeats >= 1, "repeats", "1 or more", std::to_string(o.repeats));
  require(o.seconds > 0, "seconds", "more than 0", std::to_string(o.seconds));
  const std::vector<std::string> known = known_names();
  std::string expected = "one of ";
  for (const std::string& name : known) expected += (name == known.front() ? "" : ", ") + name;
  for (const std::string& name : o.only) {
    require(std::ranges::find(known, name) != known.end(), "only", expected, name);
  }
}

bool wanted(const OpBenchOptions& o, std::string_view name) {
  return o.only.empty() || std::ranges::find(o.only, name) != o.only.end();
}

/// Seconds of each part of a case, over its repeats.
using Samples = std::array<std::vector<double>, 2>;

class Bench {
 public:
  Bench(const OpBenchOptions& options, const std::function<void(const OpBenchRecord&)>& on_record)
      : options_(options),
        on_record_(on_record),
        bytes_(options.megabytes << 20),
        clock_(options.device),
        head_start_(options.device) {
    const Ceilings ceilings = measure_ceilings(options.device, options.dtype);
    // Of the CPU a large product is not the most that it can do.
    product_gflops_ = ceilings.fma_gflops.value_or(ceilings.matmul_gflops);
    const CopyRates copy = measure_copy_rates(static_cast<std::size_t>(bytes_), options.device);
    copy_rate_ = copy.stores;
    report_copy_ceilings(copy);
    report_product_ceilings(ceilings);
  }

  void run_streaming(const StreamingFamily& family) {
    const StreamingCase op = family.make({options_.dtype, options_.device}, bytes_);
    const Samples samples = repeat([&] {
      const std::vector<Variable> results = op.forward();
      clock_.mark();
      if (op.backward_bytes > 0) backward(results, op.seeds);
      clock_.mark();
    });
    OpBenchRecord r = described(op.op, op.shape);
    r.unit = "GB/s";
    r.ceiling = copy_rate_;
    report(r, "forward", samples[0], op.forward_bytes);
    if (op.backward_bytes > 0) report(r, "backward", samples[1], op.backward_bytes);
  }

  /// The three products that training needs of a linear layer.
  void run_linear(const LinearShape& s) {
    const Tensor x = random_matrix(s.tokens, s.in), w = random_matrix(s.out, s.in),
                 y = random_matrix(s.tokens, s.out);
    const DType summed = accumulate_dtype(options_.dtype);  // gradients of parameters stay in it
    run_product("forward NT", s, s.tokens, s.out, s.in, {x}, transposed(w), options_.dtype);
    run_product("input NN", s, s.tokens, s.in, s.out, {y}, {w}, options_.dtype);
    run_product("weight TN", s, s.out, s.in, s.tokens, transposed(y), {x}, summed);
  }

 private:
  void run_product(const std::string& pass, const LinearShape& shape, std::int64_t m, std::int64_t n,
                   std::int64_t k, const Operand& a, const Operand& b, DType dtype) {
    const Tensor c = empty({m, n}, dtype, options_.device);
    const Samples samples = repeat([&] {
      matmul_into(c, a, b);
      clock_.mark();
      clock_.mark();  // there is no second part
    });
    OpBenchRecord r = described(std::string(kMatmul),
                                std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
    r.model = shape.model;
    r.unit = "GFLOP/s";
    r.ceiling = product_gflops_;
    report(r, pass, samples[0], 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
  }

  Tensor random_matrix(std::int64_t rows, std::int64_t columns) const {
    Tensor matrix = empty({rows, columns}, options_.dtype, options_.device);
    fill_uniform(matrix, {1, 1}, -1.0, 1.0);
    return matrix;
  }

  OpBenchRecord described(const std::string& op, const std::string& shape) const {
    OpBenchRecord r;
    r.op = op;
    r.shape = shape;
    r.device = device_name(options_.device);
    r.dtype = dtype_name(options_.dtype);
    r.threads = num_threads();
    return r;
  }

  /// `work`: bytes or operations.
  void report(OpBenchRecord r, const std::string& pass, const std::vector<double>& seconds, double work) {
    const double middle = median(seconds);
    r.pass = pass;
    r.ms = middle * 1e3;
    r.spread = relative_spread(seconds);
    r.rate = work / middle * 1e-9;
    on_record_(r);
  }

  void report_copy_ceilings(const CopyRates& copy) {
    const std::string size = std::to_string(options_.megabytes) + " MiB";
    report_ceiling("copy", "GB/s", copy.stores, copy_rate_, size, DType::kFloat32);
    if (copy.memcpy) report_ceiling("memcpy", "GB/s", *copy.memcpy, copy_rate_, size, DType::kFloat32);
  }

  void report_product_ceilings(const Ceilings& ceilings) {
    const auto one = [&](const std::string& name, double rate, const std::string& what, DType dtype) {
      report_ceiling(name, "GFLOP/s", rate, product_gflops_, what, dtype);
    };
    if (ceilings.fma_gflops) one("fma", *ceilings.fma_gflops, "registers", DType::kFloat32);
    const DType multiplied = options_.device == kCpu ? DType::kFloat32 : options_.dtype;
    one("matmul peak", ceilings.matmul_gflops, "square, " + std::string(dtype_name(multiplied)), multiplied);
    if (ceilings.published_gflops)
      one("published peak", *ceilings.published_gflops, cuda::product_name(), options_.dtype);
  }

  void report_ceiling(const std::string& name, const std::string& unit, double rate, double ceiling,
                      const std::string& shape, DType dtype) {
    OpBenchRecord r = described(name, shape);
    r.dtype = dtype_name(dtype);
    r.unit = unit;
    r.rate = rate;
    r.ceiling = ceiling;
    on_record_(r);
  }

  /// Times runs of both parts; run() marks the clock after each. After one run that does not count and one
  /// that tells how many there is time for, none is waited for before all are asked for.
  template <class Run>
  Samples repeat(Run&& run) {
    constexpr double kLeast = 3;  // however long they take
    const auto timed = [&] {
      head_start_();
      clock_.mark();
      run();
    };
    run();
    clock_.clear();
    timed();
    const double affordable = options_.seconds / std::max(clock_.seconds(0, 2), 1e-9);
    const double most = std::min<double>(options_.repeats, std::max(kLeast, affordable));
    for (double done = 1; done + 1 <= most; ++done) timed();
    Samples samples;
    for (std::size_t i = 0; i < static_cast<std::size_t>(most); ++i) {
      for (std::size_t part = 0; part < samples.size(); ++part)
        samples[part].push_back(clock_.seconds(3 * i + part, 3 * i + part + 1));
    }
    clock_.clear();
    return samples;
  }

  const OpBenchOptions& options_;
  const std::function<void(const OpBenchRecord&)>& on_record_;
  std::int64_t bytes_;
  DeviceClock clock_;
  HeadStart head_start_;
  double product_gflops_ = 0, copy_rate_ = 0;
};

}  // namespace

void run_op_bench(const OpBenchOptions& options, const std::function<void(const OpBenchRecord&)>& on_record) {
  check(options);
  open_device(options.device);
  Bench bench(options, on_record);
  for (const StreamingFamily& family : streaming_families()) {
    if (wanted(options, family.op)) bench.run_streaming(family);
  }
  CpuAllocator::instance().trim();  // products want other sizes
  for (const LinearShape& shape : linear_shapes()) {
    const bool model = wanted(options, shape.model.substr(0, shape.model.find(' ')));
    if (model || wanted(options, kMatmul)) bench.run_linear(shape);
  }
}

}  // namespace moh
