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

namespace moh {

namespace {

/// Rows and columns of an operand after op(): transposed if so marked.
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
    throw ShapeError(error_message(
        "matmul", "columns", "columns of the matrix " + to_string(x.matrix.shape()),
        "[" + std::to_string(x.first_column) + ", " + std::to_string(x.first_column + columns) + ")"));
  }
  return x.transposed ? Extents{columns, x.matrix.dim(0)} : Extents{x.matrix.dim(0), columns};
}

std::string describe(const Extents& extents) {
  return to_string(Shape{extents.rows, extents.columns});
}

GemmShape gemm_shape(const Operand& c, const Operand& a, const Operand& b) {
  MOH_CHECK(!c.transposed, "the result of a matrix multiplication is not transposed");
  const Extents left = extents_of(a), right = extents_of(b), out = extents_of(c);
  if (left.columns != right.rows || out.rows != left.rows || out.columns != right.columns) {
    throw ShapeError("matmul: expected [m, k] [k, n] -> [m, n], found " + describe(left) + " " +
                     describe(right) + " -> " + describe(out));
  }
  return {out.rows,     out.columns,     left.columns,    a.transposed,
          b.transposed, a.matrix.dim(1), b.matrix.dim(1), c.matrix.dim(1)};
}

/// Address of the first element of an operand whose elements are in `matrix`, its own tensor or
/// an upcast copy.
template <class T>
T* data_of(const Operand& operand, const Tensor& matrix) {
  return matrix.data<T>() + operand.first_column;
}

/// The multiplication of operands with elements of type T, in tensors of their own or upcast copies.
template <class T, class C>
void gemm_on_cpu(const GemmShape& shape, const T* a, const T* b, const GemmResult<C>& c) {
  if (dry_run()) {
    count_workspace(tiled_gemm_scratch_bytes<T, C>(shape), kCpu);
  } else {
    tiled_gemm<T, C>(shape, a, b, c);
  }
}

/// The result of the multiplication in `matrix`, that of c or an upcast copy; `bias` may be undefined.
template <class C>
GemmResult<C> result_in(const Operand& c, const Tensor& matrix, bool accumulate, const Tensor& bias) {
  return {data_of<C>(c, matrix), accumulate, bias.defined() ? bias.data<C>() : nullptr};
}

void gemm_in_float32(const GemmShape& shape, const Operand& c, const Operand& a, const Operand& b,
                     bool accumulate, const Tensor& bias) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const Tensor wide_a = a.matrix.to(DType::kFloat32), wide_b = b.matrix.to(DType::kFloat32);
  const Tensor& out = c.matrix;
  const bool keeps_old = accumulate || shape.n < shape.ldc;
  const Tensor wide_c = out.dtype() == DType::kFloat32 ? out
                        : keeps_old                    ? out.to(DType::kFloat32)
                                                       : empty(out.shape(), DType::kFloat32);
  const Tensor wide_bias = bias.defined() ? bias.to(DType::kFloat32) : bias;
  gemm_on_cpu(shape, data_of<float>(a, wide_a), data_of<float>(b, wide_b),
              result_in<float>(c, wide_c, accumulate, wide_bias));
  if (out.dtype() != DType::kFloat32) out.copy_from(wide_c);
}

/// Two bfloat16 operands are multiplied as they are, any other pair in float32.
bool is_narrow(const Operand& a, const Operand& b) {
  return a.matrix.dtype() == DType::kBFloat16 && b.matrix.dtype() == DType::kBFloat16;
}

void gemm_of_bfloat16(const GemmShape& shape, const Operand& c, const Operand& a, const Operand& b,
                      bool accumulate, const Tensor& bias) {
  const auto *const left = data_of<bfloat16>(a, a.matrix), *const right = data_of<bfloat16>(b, b.matrix);
  if (c.matrix.dtype() == DType::kFloat32) {
    gemm_on_cpu(shape, left, right, result_in<float>(c, c.matrix, accumulate, bias));
  } else {
    gemm_on_cpu(shape, left, right, result_in<bfloat16>(c, c.matrix, accumulate, bias));
  }
}

/// The multiplication on the CPU. `bias` may be undefined.
void gemm_on_host(const GemmShape& shape, const Operand& c, const Operand& a, const Operand& b,
                  bool accumulate, const Tensor& bias) {
  if (c.matrix.dtype() == DType::kFloat64) {
    gemm_on_cpu(shape, data_of<double>(a, a.matrix), data_of<double>(b, b.matrix),
                result_in<double>(c, c.matrix, accumulate, bias));
  } else if (is_narrow(a, b)) {
    gemm_of_bfloat16(shape, c, a, b, accumulate, bias);
  } else {
    gemm_in_float32(shape, c, a, b, accumulate, bias);
  }
}

void run_on_device(const CudaGemm& gemm, const CudaGemmData& data) {
  if (dry_run()) {
    DryRunScope::current()->keep_workspace("cuBLASLt", kCublasWorkspaceBytes, {Device::Type::kCuda, 0});
    return;
  }
  cuda_gemm(gemm, data);
}

void gemm_on_device(const GemmShape& s, const Operand& c, const Operand& a, const Operand& b, bool accumulate,
                    const MatmulExtra& extra) {
  const MemoryPurposeScope purpose(MemoryPurpose::kWorkspace);
  const bool narrow = is_narrow(a, b);
  const DType dtype = narrow ? DType::kBFloat16 : DType::kFloat32;
  const Tensor left = a.matrix.to(dtype), right = b.matrix.to(dtype);
  const Tensor& out = c.matrix;
  const bool keeps_old = accumulate || s.n < s.ldc;
  const Tensor result = narrow || out.dtype() == DType::kFloat32 ? out
                        : keeps_old                              ? out.to(DType::kFloat32)
                                    : empty(out.shape(), DType::kFloat32, out.device());
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

/// Computes `extra` by a separate kernel.
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

/// "matmul NT 2048x768x512": transposition of a and b as in BLAS, then m x n x k.
std::string profile_name(const GemmShape& s) {
  const auto letter = [](bool transposed) { return transposed ? 'T' : 'N'; };
  return std::string("matmul ") + letter(s.transpose_a) + letter(s.transpose_b) + ' ' + std::to_string(s.m) +
         'x' + std::to_string(s.n) + 'x' + std::to_string(s.k);
}

/// The matrix multiplication. Returns whether it included `extra`.
bool multiply(const GemmShape& shape, const Operand& c, const Operand& a, const Operand& b, bool accumulate,
              const MatmulExtra& extra) {
  if (shape.m == 0 || shape.n == 0) return false;
  const ProfileScope profile([&] { return profile_name(shape); }, flops_of(shape));
  if (shape.k == 0) {
    MOH_CHECK(accumulate || shape.n == shape.ldc,
              "an empty matrix multiplication must write all columns of its result");
    if (!accumulate) c.matrix.fill(0);
    return false;
  }
  if (c.matrix.device() != kCpu) {
    gemm_on_device(shape, c, a, b, accumulate, extra);
    return true;
  }
  const bool has_bias = extra.kind == GemmExtra::kBias;
  gemm_on_host(shape, c, a, b, accumulate, has_bias ? extra.vector : Tensor());
  return has_bias;
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
            "the bias must have an element for each column of c, of its dtype");
  matmul_extra_into(c, a, b, /*accumulate=*/false, {GemmExtra::kBias, bias});
}

void matmul_row_sums_into(const Operand& c, const Operand& a, const Operand& b, const Tensor& sums,
                          bool accumulate) {
  MOH_CHECK(a.transposed && sums.dtype() == c.matrix.dtype() && sums.numel() == extents_of(c).rows,
            "sums must have an element for each row of c, of its dtype, and a must be transposed");
  MOH_CHECK(c.matrix.dtype() == accumulate_dtype(a.matrix.dtype()),
            "c must have the accumulation dtype of a");
  matmul_extra_into(c, a, b, accumulate, {GemmExtra::kRowSums, sums});
}

Tensor matmul(const Operand& a, const Operand& b, DType dtype) {
  const std::int64_t m = a.matrix.dim(a.transposed ? 1 : 0), n = b.matrix.dim(b.transposed ? 0 : 1);
  Tensor c = empty({m, n}, dtype, a.matrix.device());
  matmul_into(c, a, b);
  return c;
}

void set_gemm_options(const GemmOptions& options) {
  set_cuda_gemm_options(options);
}

std::vector<GemmSearch> gemm_searches() {
  return cuda_gemm_searches();
}

}  // namespace moh
