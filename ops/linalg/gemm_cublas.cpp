#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/cuda/backend.h"
#include "core/cuda/tag.h"
#include "core/device_clock.h"
#include "core/error.h"
#include "core/function_ref.h"
#include "core/math_mode.h"
#include "ops/activation/gelu_kernels.h"
#include "ops/cuda/scratch.h"
#include "ops/linalg/cublas_product.h"
#include "ops/linalg/gelu_mlp_kernels.h"
#include "ops/linalg/gemm_search.h"
#include "ops/linalg/linear_kernels.h"

namespace moh {

namespace {

std::string_view name_of(GemmExtra extra) {
  constexpr std::array<std::string_view, 8> kNames = {
      "none", "bias", "row_sums", "gelu", "gelu_bias", "gelu_aux", "gelu_aux_bias", "gelu_gradient"};
  return kNames[static_cast<std::size_t>(extra)];
}

/// The name of a matrix multiplication in a file of algorithms: all that the choice of an
/// algorithm depends on.
std::string name_of(const CudaGemm& g, const GemmAlignments& alignments, bool tf32) {
  const auto numbers = [](std::string_view separator, std::initializer_list<std::int64_t> values) {
    std::string text;
    for (const std::int64_t value : values)
      text.append(text.empty() ? "" : separator).append(std::to_string(value));
    return text;
  };
  std::string name = std::string(g.transpose_a ? "T" : "N") + (g.transpose_b ? "T " : "N ") +
                     numbers("x", {g.m, g.n, g.k}) + " ld " + numbers(" ", {g.lda, g.ldb, g.ldc}) +
                     " align " + numbers(" ", {alignments.a, alignments.b, alignments.c, alignments.vector}) +
                     " " + std::string(dtype_name(g.operand_dtype)) + " " +
                     std::string(dtype_name(g.result_dtype));
  if (tf32 && g.operand_dtype == DType::kFloat32) name += " tf32";
  if (g.accumulate) name += " accumulate";
  if (g.extra != GemmExtra::kNone) name.append(" ").append(name_of(g.extra));
  if (alignments.aux < 256) name += " aux align " + std::to_string(alignments.aux);
  return name;
}

/// Computes g.extra by a separate kernel.
void run_extra(const CudaGemm& g, const CudaGemmData& data) {
  const auto run = [&]<class T>() {
    const T* vector = static_cast<const T*>(data.vector);
    T *c = static_cast<T*>(data.c), *aux = static_cast<T*>(data.aux);
    if (g.extra == GemmExtra::kBias) {
      LinearKernels<Cuda, T>::add_bias(vector, c, {g.m, g.n}, g.ldc);
    } else if (g.extra == GemmExtra::kGeluGradient) {
      GeluKernels<Cuda, T>::backward(c, aux, c, g.m * g.n, GeluForm::kTanh);
    } else {
      GeluMlpKernels<Cuda, T>::forward(c, vector, aux, c, {g.m, g.n}, GeluForm::kTanh);
    }
  };
  const auto sum_rows = [&]<class T>() {
    LinearKernels<Cuda, T>::sum_rows(static_cast<const T*>(data.a), static_cast<float*>(data.vector),
                                     {g.k, g.m}, g.lda);
  };
  const auto call = [](DType dtype, const auto& kernel) {
    dtype == DType::kBFloat16 ? kernel.template operator()<bfloat16>() : kernel.template operator()<float>();
  };
  g.extra == GemmExtra::kRowSums ? call(g.operand_dtype, sum_rows) : call(g.result_dtype, run);
}

/// One of the ways to compute a matrix multiplication; only the addresses of the matrices are missing.
struct Candidate {
  std::shared_ptr<const CublasProduct> product;
  CublasAlgorithm algorithm;
};

/// A matrix multiplication with the ways to compute it that are left, of which the first is taken. Once it
/// has run, it is the only one.
struct Plan {
  std::vector<Candidate> ways;
  std::size_t refused = 0;
};

/// Whether the library does not compute this in such a way: nothing was enqueued.
bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/// The plans of all matrix multiplications of the process, and how they are chosen.
class Gemms {
 public:
  static Gemms& instance() {
    static auto* gemms = new Gemms;  // never destroyed, as the device it belongs to
    return *gemms;
  }

  void run(const CudaGemm& gemm, const CudaGemmData& data) {
    const std::lock_guard lock(mutex_);
    const GemmAlignments alignments(data);
    const bool tf32 = math_mode().tf32;
    const auto key = std::tuple(gemm, alignments, tf32);
    auto plan = plans_.find(key);
    if (plan == plans_.end()) plan = plans_.emplace(key, make_plan(gemm, alignments, tf32, data)).first;
    run(gemm, plan->second, data, [&] { return name_of(gemm, alignments, tf32); });
  }

  std::vector<GemmSearch> searches() {
    const std::lock_guard lock(mutex_);
    return searches_;
  }

  void set_options(const GemmOptions& options) {
    const std::lock_guard lock(mutex_);
    known_ = GemmAlgorithms(made_for(), options.algorithms, options.algorithms_name);
    options_ = options;
    plans_.clear();
  }

 private:
  Gemms() : known_(made_for()) {}

  static std::string made_for() {
    return "cuBLASLt " + std::to_string(CublasLibrary::get().cublasLtGetVersion()) + ", " +
           cuda::product_name();
  }

  /// cuBLASLt may refuse to run what it has proposed.
  void run(const CudaGemm& gemm, Plan& plan, const CudaGemmData& data,
           FunctionRef<std::string()> name) const {
    cublasStatus_t status = run(gemm, plan.ways.front(), data);
    for (; plan.ways.size() > 1 && is_refusal(status); status = run(gemm, plan.ways.front(), data)) {
      plan.ways.erase(plan.ways.begin());
      ++plan.refused;
      if (!options_.on_refused) continue;
      options_.on_refused("cublasLt: matrix multiplication " + name() + ": proposal " +
                          std::to_string(plan.refused) + " is refused (" +
                          CublasLibrary::get().cublasLtGetStatusString(status) + "); the next of " +
                          std::to_string(plan.ways.size()) + " is taken");
    }
    check_cublas(status, "cublasLtMatmul");
    plan.ways.resize(1);
  }

  cublasStatus_t run(const CudaGemm& gemm, const Candidate& way, const CudaGemmData& data) const {
    const cublasStatus_t status = way.product->run(context_, way.algorithm, data);
    if (status == CUBLAS_STATUS_SUCCESS && !way.product->is_whole()) run_extra(gemm, data);
    return status;
  }

  Plan make_plan(const CudaGemm& gemm, const GemmAlignments& alignments, bool tf32,
                 const CudaGemmData& data) {
    const std::string name = name_of(gemm, alignments, tf32);
    if (const GemmAlgorithm* const known = known_.find(name))
      return known_plan(gemm, tf32, name, *known, data);
    std::vector<Candidate> ways;
    const auto propose = [&](bool fused) {
      const auto product = std::make_shared<const CublasProduct>(gemm, fused, tf32);
      for (const auto& algorithm : product->proposals(context_, alignments, data))
        ways.push_back({product, algorithm});
    };
    if (CublasProduct::may_fuse(gemm, tf32)) propose(/*fused=*/true);
    if (gemm.extra != GemmExtra::kNone) propose(/*fused=*/false);
    if (ways.empty())
      throw DeviceError(error_message("cublasLt", "matrix multiplication " + name, "an algorithm", "none"));
    if (options_.search) {
      if (const auto fastest = search(gemm, name, ways, data)) return {{*fastest}};
    }
    return {std::move(ways)};
  }

  Plan known_plan(const CudaGemm& gemm, bool tf32, const std::string& name, const GemmAlgorithm& known,
                  const CudaGemmData& data) const {
    const auto product = std::make_shared<const CublasProduct>(gemm, known.fused, tf32);
    const auto algorithm = product->algorithm_of(context_, known, data);
    if (!algorithm || (known.fused && !CublasProduct::may_fuse(gemm, tf32))) {
      throw DataError(error_message(options_.algorithms_name, name,
                                    "an algorithm that cuBLASLt supports for it", "one that it rejects",
                                    "delete the file to have the algorithms searched again"));
    }
    return {{{product, *algorithm}}};
  }

  /// Times the candidates whose settings can be written to a file, as only those can be chosen again by
  /// another run. If there are none that run, nothing: every run takes the first candidate.
  std::optional<Candidate> search(const CudaGemm& gemm, const std::string& name, std::vector<Candidate> ways,
                                  const CudaGemmData& data) {
    constexpr int kRounds = 4;
    std::erase_if(ways, [&](Candidate& way) {
      const auto again = way.product->algorithm_of(context_, settings_of(way.algorithm.algorithm), data);
      if (again) way.algorithm = *again;
      return !again;
    });
    std::optional<DeviceScratch> scratch;
    CudaGemmData trial = data;
    if (gemm.accumulate) {  // trials must not add to the real result
      const std::size_t bytes = static_cast<std::size_t>(gemm.m * gemm.ldc) * dtype_size(gemm.result_dtype);
      trial.c = scratch.emplace(bytes).as<void>();
      cuda::set_zero(trial.c, bytes);
    }
    DeviceClock clock(Device{Device::Type::kCuda});
    const auto fastest = fastest_of(ways.size(), kRounds, [&](std::size_t i) -> std::optional<double> {
      clock.clear();
      const DeviceClock::Mark begin = clock.mark();
      if (run(gemm, ways[i], trial) != CUBLAS_STATUS_SUCCESS) return std::nullopt;
      return clock.seconds(begin, clock.mark());
    });
    if (!fastest) return std::nullopt;
    searches_.push_back({name, ways.size(), fastest->first_seconds, fastest->seconds});
    const Candidate way = ways[fastest->candidate];
    GemmAlgorithm found = settings_of(way.algorithm.algorithm);
    found.fused = way.product->is_whole();
    known_.add(name, found);
    if (options_.on_found) options_.on_found(known_.to_text());
    return way;
  }

  std::mutex mutex_;
  CublasContext context_;
  GemmOptions options_;
  GemmAlgorithms known_;
  std::map<std::tuple<CudaGemm, GemmAlignments, bool>, Plan> plans_;
  std::vector<GemmSearch> searches_;
};

}  // namespace

void cuda_gemm(const CudaGemm& gemm, const CudaGemmData& data) {
  Gemms::instance().run(gemm, data);
}

void set_cuda_gemm_options(const GemmOptions& options) {
  Gemms::instance().set_options(options);
}

std::vector<GemmSearch> cuda_gemm_searches() {
  return Gemms::instance().searches();
}

}  // namespace moh
