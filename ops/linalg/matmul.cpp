#include "ops/linalg/matmul.h"

#include <algorithm>
#include <string>

#include "autograd/profile.h"
#include "core/dry_run.h"
#include "core/error.h"
#include "core/parallel.h"
#include "ops/cpu/row_sums.h"
#include "ops/linalg/linear_kernels.h"
#include "ops/linalg/matmul_extra.h"
#include "ops/linalg/matmul_kernels.h"
#include "ops/linalg/tiled_gemm.h"
#include "ops/op.h"

#ifdef MOH_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

namespace moh {

namespace {

/// Rows and columns of an operand as the product sees it.
struct Extents {
  std::int64_t rows, columns;
};
Extents extents_of(const Operand& x) {
  if (x.matrix.rank() != 2) {
    throw ShapeError(error_message("matmul", "operand", "a matrix", describe(x.matrix)));
  }
  const std::int64_t all = x.matrix.dim(1) - x.first_column;
  const std::int64_t columns = x.num_columns < 0 ? all : x.num_columns;
  if (x.first_column < 0 || columns < 0 || columns > all) {
    throw ShapeError(
        error_message("matmul", "columns", "columns of the matrix " + to_string(x.matrix.shape()),
                      std::to_string(x.first_column) + " to " + std::to_string(x.first_column + columns)));
  }
  return x.transposed ? Extents{columns, x.matrix.dim(0)} : Extents{x.matrix.dim(0), columns};
}

std::string describe(const Extents& extents) {
  return to_string(Shape{extents.rows, extents.columns});
}

GemmShape gemm_shape(const Operand& c, const Operand& a, const Operand& b) {
  MOH_CHECK(!c.transposed, "the result of a product is not transposed");
  const Extents left = extents_of(a), right = extents_of(b), out = extents_of(c);
  if (left.columns != right.rows || out.rows != left.rows || out.columns != right.columns) {
    throw ShapeError("matmul: expected [m, k] [k, n] -> [m, n], found " + describe(left) + " " +
                     describe(right) + " -> " + describe(out));
  }
  return {out.rows,     out.columns,     left.columns,    a.transposed,
          b.transposed, a.matrix.dim(1), b.matrix.dim(1), c.matrix.dim(1)};
}

/// The first element of an operand whose elements are in `matrix`, its own tensor or a copy.
template <class T>
T* data_of(const Operand& operand, const Tensor& matrix) {
  return matrix.data<T>() + operand.first_column;
}

#ifdef MOH_HAVE_DNNL

/// Where our own kernels are faster (docs/benchmarks/cpu.md): the forward products of layers, a b^T, for
/// which oneDNN transposes b again in each block; router logits; and gradients of weights, a^T b, whose
/// factors have long rows: steps of 4 KiB lead to the same places of the caches, where ours fetches ahead.
bool prefers_tiles(const GemmShape& s) {
  constexpr std::int64_t kNarrow = 32, kLongRow = 1024;
  if (!s.transpose_a) return s.transpose_b || s.n < kNarrow;
  return std::min(s.m, s.n) < kNarrow || std::max(s.lda, s.ldb) >= kLongRow;
}

/// Blocks of c that are handed to threads, as functions of the sizes alone: oneDNN chooses how it sums by the
/// size of its product. About 1024 x 1024, smaller where that would leave fewer than eight.
struct Blocks {
  std::int64_t rows, columns;
};
Blocks blocks_for(const GemmShape& s) {
  Blocks blocks{std::min<std::int64_t>(s.m, 1024), std::min<std::int64_t>(s.n, 1024)};
  const auto count = [&] { return num_chunks(s.m, blocks.rows) * num_chunks(s.n, blocks.columns); };
  constexpr std::int64_t kLeast = 64;
  while (count() < 8 && std::max(blocks.rows, blocks.columns) > kLeast) {
    // Each block copies its part of a and of b, and a transposed a takes the longest.
    const bool cut_columns = s.transpose_a ? blocks.columns > kLeast : blocks.columns > blocks.rows;
    std::int64_t& longer = cut_columns ? blocks.columns : blocks.rows;
    longer = (longer + 1) / 2;
  }
  return blocks;
}

void check_dnnl(dnnl_status_t status) {
  if (status == dnnl_success) return;
  throw InternalError("matmul: oneDNN refused a matrix product (status " + std::to_string(status) + ")");
}

void float_gemm(const GemmShape& s, const float* a, const float* b, float* c, bool accumulate) {
  if (prefers_tiles(s)) return tiled_gemm<float>(s, a, b, c, accumulate);
  const float beta = accumulate ? 1.0F : 0.0F;
  const char letter_a = s.transpose_a ? 'T' : 'N', letter_b = s.transpose_b ? 'T' : 'N';
  const Blocks blocks = blocks_for(s);
  const std::int64_t columns = num_chunks(s.n, blocks.columns);
  const auto run_block = [&](std::int64_t row, std::int64_t column) {
    check_dnnl(dnnl_sgemm(
        letter_a, letter_b, std::min(blocks.rows, s.m - row), std::min(blocks.columns, s.n - column), s.k,
        1.0F, a + (s.transpose_a ? row : row * s.lda), s.lda, b + (s.transpose_b ? column * s.ldb : column),
        s.ldb, beta, c + row * s.ldc + column, s.ldc));
  };
  const SerialScope one_thread_per_block;
  parallel_for(num_chunks(s.m, blocks.rows) * columns, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      run_block(i / columns * blocks.rows, i % columns * blocks.columns);
  });
}

#else

bool prefers_tiles(const GemmShape&) {
  return true;
}

void float_gemm(const GemmShape& s, const float* a, const float* b, float* c, bool accumulate) {
  tiled_gemm<float>(s, a, b, c, accumulate);
}

#endif

void gemm_in_float32(const GemmShape& shape, const Operand& c, const Operand& a, const Operand& b,
                     bool accumulate) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor wide_a = a.matrix.to(DType::kFloat32), wide_b = b.matrix.to(DType::kFloat32);
  const Tensor& out = c.matrix;
  const bool keeps_old = accumulate || shape.n < shape.ldc;
  const Tensor wide_c = out.dtype() == DType::kFloat32 ? out
                        : keeps_old                    ? out.to(DType::kFloat32)
                                                       : empty(out.shape(), DType::kFloat32);
  if (dry_run()) {  // but for oneDNN's own workspace
    count_workspace(prefers_tiles(shape) ? tiled_gemm_scratch_bytes(shape) : 0, kCpu);
  } else {
    float_gemm(shape, data_of<float>(a, wide_a), data_of<float>(b, wide_b), data_of<float>(c, wide_c),
               accumulate);
  }
  if (out.dtype() != DType::kFloat32) out.copy_from(wide_c);
}

void run_on_device([[maybe_unused]] const CudaGemm& gemm, [[maybe_unused]] const CudaGemmData& data) {
  if (dry_run()) {
    DryRunScope::current()->keep_workspace("cuBLASLt", kCublasWorkspaceBytes, {Device::Type::kCuda, 0});
    return;
  }
#ifdef MOH_HAVE_CUDA
  cuda_gemm(gemm, data);
#else
  fail_check(__FILE__, __LINE__, "the CPU", "this build has no CUDA");
#endif
}

/// bfloat16 factors are multiplied as they are, any other pair in float32.
void gemm_on_device(const GemmShape& s, const Operand& c, const Operand& a, const Operand& b, bool accumulate,
                    const MatmulExtra& extra) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const bool narrow = a.matrix.dtype() == DType::kBFloat16 && b.matrix.dtype() == DType::kBFloat16;
  const DType dtype = narrow ? DType::kBFloat16 : DType::kFloat32;
  const Tensor left = a.matrix.to(dtype), right = b.matrix.to(dtype);
  const Tensor& out = c.matrix;
  const Tensor result = narrow || out.dtype() == DType::kFloat32 ? out : out.to(DType::kFloat32);
  const Tensor vector = extra.vector.defined() ? extra.vector.to(result.dtype()) : Tensor();
  const auto first = [](const Operand& operand, const Tensor& matrix) {
    return static_cast<std::byte*>(matrix.raw()) +
           static_cast<std::size_t>(operand.first_column) * dtype_size(matrix.dtype());
  };
  run_on_device({s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.lda, s.ldb, s.ldc, dtype, result.dtype(),
                 accumulate, extra.kind},
                {first(a, left), first(b, right), first(c, result), vector.defined() ? vector.raw() : nullptr,
                 extra.aux.defined() ? extra.aux.raw() : nullptr});
  if (!result.shares_storage_with(out)) out.copy_from(result);
}

/// As a kernel of its own.
void run_extra(const GemmShape& s, const Operand& c, const Operand& a, const MatmulExtra& extra) {
  const Tensor& vector = extra.vector;
  if (extra.kind == GemmExtra::kBias) {
    run_kernel("linear", vector, [&]<class Backend, class T>() {
      LinearKernels<Backend, T>::add_bias(vector.data<T>(), data_of<T>(c, c.matrix), {s.m, s.n}, s.ldc);
    });
  } else if (extra.kind == GemmExtra::kRowSums) {
    const Rows rows{s.k, s.m};
    const auto run = [&]<class Backend, class T>() {
      LinearKernels<Backend, T>::sum_rows(data_of<T>(a, a.matrix), vector.data<Acc<T>>(), rows, s.lda);
    };
    run_kernel("linear", a.matrix, run, RowSumsWorkspace{rows});
  }
}

double flops_of(const GemmShape& s) {
  return 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

/// "matmul NT 2048x768x512": layout as BLAS writes it, then m x n x k.
std::string profile_name(const GemmShape& s) {
  const auto letter = [](bool transposed) { return transposed ? 'T' : 'N'; };
  return std::string("matmul ") + letter(s.transpose_a) + letter(s.transpose_b) + ' ' + std::to_string(s.m) +
         'x' + std::to_string(s.n) + 'x' + std::to_string(s.k);
}

/// The product itself. Returns whether `extra` was part of it.
bool multiply(const GemmShape& shape, const Operand& c, const Operand& a, const Operand& b, bool accumulate,
              const MatmulExtra& extra) {
  if (shape.m == 0 || shape.n == 0) return false;
  const ProfileScope profile([&] { return profile_name(shape); }, flops_of(shape));
  if (shape.k == 0) {
    MOH_CHECK(accumulate || shape.n == shape.ldc, "an empty product into some columns");
    if (!accumulate) c.matrix.fill(0);
    return false;
  }
  if (c.matrix.device() != kCpu) {
    gemm_on_device(shape, c, a, b, accumulate, extra);
    return true;
  }
  if (c.matrix.dtype() == DType::kFloat64) {
    if (dry_run()) return false;
    tiled_gemm<double>(shape, data_of<double>(a, a.matrix), data_of<double>(b, b.matrix),
                       data_of<double>(c, c.matrix), accumulate);
  } else {
    gemm_in_float32(shape, c, a, b, accumulate);
  }
  return false;
}

}  // namespace

void matmul_extra_into(const Operand& c, const Operand& a, const Operand& b, bool accumulate,
                       const MatmulExtra& extra) {
  const GemmShape shape = gemm_shape(c, a, b);
  if (!multiply(shape, c, a, b, accumulate, extra)) run_extra(shape, c, a, extra);
}

void matmul_into(const Operand& c, const Operand& a, const Operand& b, bool accumulate) {
  matmul_extra_into(c, a, b, accumulate, {});
}

void matmul_bias_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& bias) {
  MOH_CHECK(bias.dtype() == c.matrix.dtype() && bias.numel() == extents_of(c).columns,
            "a bias for each column of c");
  matmul_extra_into(c, a, b, /*accumulate=*/false, {GemmExtra::kBias, bias});
}

void matmul_row_sums_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& sums,
                          bool accumulate) {
  MOH_CHECK(a.transposed && sums.dtype() == c.matrix.dtype() && sums.numel() == extents_of(c).rows,
            "a sum for each row of a transposed factor");
  MOH_CHECK(c.matrix.dtype() == accumulate_dtype(a.matrix.dtype()),
            "sums are of the type they are summed in");
  matmul_extra_into(c, a, b, accumulate, {GemmExtra::kRowSums, sums});
}

Tensor matmul(const Operand& a, const Operand& b, DType dtype) {
  const std::int64_t m = a.matrix.dim(a.transposed ? 1 : 0), n = b.matrix.dim(b.transposed ? 0 : 1);
  Tensor c = empty({m, n}, dtype, a.matrix.device());
  matmul_into(c, a, b);
  return c;
}

#ifdef MOH_HAVE_CUDA
void set_gemm_options(const GemmOptions& options) {
  set_cuda_gemm_options(options);
}
#else
void set_gemm_options(const GemmOptions&) {
  throw DeviceError("matrix products: this build computes on the CPU only");
}
#endif

}  // namespace moh
