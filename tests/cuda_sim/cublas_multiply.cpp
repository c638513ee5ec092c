#include <cmath>
#include <numeric>
#include <vector>

#include "core/dtype.h"
#include "tests/cuda_sim/cublas_objects.h"
#include "tests/cuda_sim/device_memory.h"
#include "tests/cuda_sim/grid.h"
#include "tests/cuda_sim/number_formats.h"

// The computation of a product of the simulated cuBLASLt, in plain loops.

namespace moh::sim {

namespace {

float get(const cublasLtMatrixLayoutOpaque_t& layout, const void* from, std::int64_t i) {
  return layout.type == CUDA_R_16BF ? static_cast<float>(static_cast<const bfloat16*>(from)[i])
                                    : static_cast<const float*>(from)[i];
}

/// A factor of a product as `lines` vectors of length `depth`: the rows of the first, the columns of the
/// second.
struct Factor {
  Factor(const cublasLtMatrixLayoutOpaque_t& layout, const void* from, bool lines_are_columns, bool tf32)
      : depth(lines_are_columns ? layout.rows : layout.columns) {
    const std::int64_t lines = lines_are_columns ? layout.columns : layout.rows;
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const float value =
            get(layout, from, lines_are_columns ? k + line * layout.stride : line + k * layout.stride);
        values.push_back(tf32 ? rounded_to_tf32(value) : value);
      }
    }
  }
  const float* line(std::int64_t i) const { return values.data() + i * depth; }

  std::int64_t depth;
  std::vector<float> values;
};

/// a[begin] b[begin] + a[begin + step] b[begin + step] + ..., in this order.
float sum_of(const float* a, const float* b, std::int64_t begin, std::int64_t end, std::int64_t step) {
  float sum = 0;
  for (std::int64_t k = begin; k < end; k += step) sum += a[k] * b[k];
  return sum;
}

float dot(const Algorithm& algorithm, const float* a, const float* b, std::int64_t depth) {
  if (algorithm.id() == 12) return sum_of(a, b, 0, depth, 2) + sum_of(a, b, 1, depth, 2);
  const std::int64_t parts = std::max<std::int64_t>(algorithm.splits(), 1);
  float sum = 0;
  for (std::int64_t part = 0; part < parts; ++part)
    sum += sum_of(a, b, part * depth / parts, (part + 1) * depth / parts, 1);
  return sum;
}

void put(const cublasLtMatrixLayoutOpaque_t& layout, void* to, std::int64_t i, float value) {
  if (layout.type == CUDA_R_16BF) {
    static_cast<bfloat16*>(to)[i] = value;
  } else {
    static_cast<float*>(to)[i] = value;
  }
}

/// With the tanh that the hardware of a GPU has, of about 11 bits, as the real library may.
struct Gelu {
  explicit Gelu(float at) : x(at), tanh(rounded_to_tf32(std::tanh(kRoot * (x + kCubic * x * x * x)))) {}
  float value() const { return 0.5F * x * (1 + tanh); }
  float slope() const {
    return 0.5F * (1 + tanh) + 0.5F * x * (1 - tanh * tanh) * kRoot * (1 + 3 * kCubic * x * x);
  }

  static constexpr float kRoot = 0.797884561F, kCubic = 0.044715F;
  float x, tanh;
};

/// The result of an epilogue for the element in row i, column j of d.
float after_epilogue(const Product& p, float sum, std::int64_t i, std::int64_t j) {
  const std::int64_t place = i + j * p.desc.aux_stride;
  if (p.adds_bias()) sum += get(p.d, p.desc.bias, i);
  if (p.writes_aux()) put(p.d, p.desc.aux, place, sum);
  if (p.has_gelu()) return Gelu(sum).value();
  return p.has_gelu_gradient() ? sum * Gelu(get(p.d, p.desc.aux, place)).slope() : sum;
}

}  // namespace

void multiply(const Algorithm& algorithm, const Product& p, const Pointers& at) {
  if (!computes()) return;
  const bool tf32 = p.desc.compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  const Factor a(p.a, at.a, p.desc.trans_a == CUBLAS_OP_T, tf32),
      b(p.b, at.b, p.desc.trans_b == CUBLAS_OP_N, tf32);
  for (std::int64_t j = 0; j < p.d.columns; ++j) {
    for (std::int64_t i = 0; i < p.d.rows; ++i) {
      const std::int64_t place = i + j * p.d.stride;
      float sum = dot(algorithm, a.line(i), b.line(j), a.depth);
      if (at.beta != 0) sum += at.beta * get(p.d, at.d, place);
      put(p.d, at.d, place, after_epilogue(p, sum, i, j));
    }
    if (p.sums_rows()) put(p.d, p.desc.bias, j, std::accumulate(b.line(j), b.line(j) + b.depth, 0.0F));
  }
}

void require_memory(const Product& p, const Pointers& at) {
  const DeviceMemory& memory = DeviceMemory::instance();
  memory.require(at.a, p.a.bytes(), "cublasLtMatmul: A");
  memory.require(at.b, p.b.bytes(), "cublasLtMatmul: B");
  memory.require(at.d, p.d.bytes(), "cublasLtMatmul: D");
  if (p.adds_bias() || p.sums_rows()) {
    const std::int64_t length = p.adds_bias() ? p.d.rows : p.d.columns;
    memory.require(p.desc.bias, static_cast<std::size_t>(length) * p.d.item(), "cublasLtMatmul: bias");
  }
  if (p.writes_aux() || p.has_gelu_gradient()) {
    const auto length = static_cast<std::size_t>((p.d.columns - 1) * p.desc.aux_stride + p.d.rows);
    memory.require(p.desc.aux, length * p.d.item(), "cublasLtMatmul: aux");
  }
}

}  // namespace moh::sim
