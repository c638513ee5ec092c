#include <algorithm>
#include <cmath>
#include <cstring>
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
/// second. They lie in panels of kLines, element by element; the last one ends with zeros.
struct Factor {
  Factor(const cublasLtMatrixLayoutOpaque_t& layout, const void* from, bool lines_are_columns, bool tf32)
      : depth(lines_are_columns ? layout.rows : layout.columns),
        lines(lines_are_columns ? layout.columns : layout.rows),
        values(static_cast<std::size_t>((lines + kLines - 1) / kLines * kLines * depth)) {
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t k = 0; k < depth; ++k) {
        const float value =
            get(layout, from, lines_are_columns ? k + line * layout.stride : line + k * layout.stride);
        values[static_cast<std::size_t>(place(line, k))] = tf32 ? rounded_to_tf32(value) : value;
      }
    }
  }
  std::int64_t place(std::int64_t line, std::int64_t k) const {
    return (line / kLines * depth + k) * kLines + line % kLines;
  }
  const float* panel(std::int64_t first_line) const { return values.data() + place(first_line, 0); }
  std::vector<float> line(std::int64_t i) const {
    std::vector<float> elements(static_cast<std::size_t>(depth));
    for (std::int64_t k = 0; k < depth; ++k)
      elements[static_cast<std::size_t>(k)] = values[static_cast<std::size_t>(place(i, k))];
    return elements;
  }

  static constexpr std::int64_t kLines = 16;
  std::int64_t depth, lines;
  std::vector<float> values;
};

/// A number for each line of a panel, which the compiler computes at once.
using Sums = float __attribute__((vector_size(sizeof(float) * Factor::kLines)));

/// Adds a[begin] b[begin] + a[begin + step] b[begin + step] + ..., summed in this order, for each line a of a
/// panel.
void add_sums(Sums& to, const float* panel, const float* b, std::int64_t begin, std::int64_t end,
              std::int64_t step) {
  Sums sums{};
  for (std::int64_t k = begin; k < end; k += step) {
    Sums elements;
    std::memcpy(&elements, panel + k * Factor::kLines, sizeof elements);
    sums += elements * b[k];
  }
  to += sums;
}

void dot(const Algorithm& algorithm, Sums& sums, const float* panel, const float* b, std::int64_t depth) {
  sums = Sums{};
  if (algorithm.id() == 12) {
    add_sums(sums, panel, b, 0, depth, 2);
    return add_sums(sums, panel, b, 1, depth, 2);
  }
  const std::int64_t parts = std::max<std::int64_t>(algorithm.splits(), 1);
  for (std::int64_t part = 0; part < parts; ++part)
    add_sums(sums, panel, b, part * depth / parts, (part + 1) * depth / parts, 1);
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
    const std::vector<float> line = b.line(j);
    for (std::int64_t first = 0; first < p.d.rows; first += Factor::kLines) {
      Sums sums;
      dot(algorithm, sums, a.panel(first), line.data(), a.depth);
      for (std::int64_t i = first; i < std::min(first + Factor::kLines, p.d.rows); ++i) {
        const std::int64_t place = i + j * p.d.stride;
        float sum = sums[i - first];
        if (at.beta != 0) sum += at.beta * get(p.d, at.d, place);
        put(p.d, at.d, place, after_epilogue(p, sum, i, j));
      }
    }
    if (p.sums_rows()) put(p.d, p.desc.bias, j, std::accumulate(line.begin(), line.end(), 0.0F));
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
