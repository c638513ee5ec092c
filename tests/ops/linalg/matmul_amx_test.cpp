// The GEMM of bfloat16 in the tiles of AMX: in its plain form on every machine, and that form beside the
// instructions where the processor has them.

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "core/parallel.h"
#include "ops/linalg/matmul.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/thread_counts.h"
#include "tests/support/skip.h"

using namespace moh;
using namespace moh::test;

namespace {

struct Sizes {
  std::int64_t m, n, k;
};
// Edges inside and at the ends of tiles, blocks, panels and steps; odd depths and several blocks of the
// depth.
constexpr Sizes kSizes[] = {{1, 1, 1},    {16, 16, 32},  {17, 15, 31},   {32, 32, 64},    {33, 31, 33},
                            {65, 97, 70}, {31, 64, 515}, {50, 130, 513}, {130, 48, 1030}, {49, 1100, 40}};

/// Columns 3 and on of a matrix of bfloat16 with columns of NaN on both sides.
Operand framed(const Shape& shape, bool transposed, std::uint64_t seed) {
  const std::int64_t rows = shape[0], columns = shape[1], wide = columns + 8;
  const Tensor inner = normal(shape, seed), all = full({rows, wide}, std::nan(""), DType::kFloat64);
  for (std::int64_t i = 0; i < rows; ++i) {
    std::memcpy(all.data<double>() + i * wide + 3, inner.data<double>() + i * columns,
                static_cast<std::size_t>(columns) * sizeof(double));
  }
  return columns_of(all.to(DType::kBFloat16), 3, columns, transposed);
}

struct Operands {
  Operand a, b;
};
Operands operands_of(const Sizes& sizes, bool ta, bool tb) {
  const auto [m, n, k] = sizes;
  return {framed(ta ? Shape{k, m} : Shape{m, k}, ta, 1), framed(tb ? Shape{n, k} : Shape{k, n}, tb, 2)};
}

/// Columns 2 to 2 + n of a matrix of threes, after c = a b and c += a b.
Tensor twice_product(const Sizes& sizes, const Operands& x, DType dtype) {
  Tensor c = full({sizes.m, sizes.n + 5}, 3.0, dtype);
  matmul_into(columns_of(c, 2, sizes.n), x.a, x.b);
  matmul_into(columns_of(c, 2, sizes.n), x.a, x.b, /*accumulate=*/true);
  return c;
}

/// A float64 matrix, looked up once: a checked build takes longer to do so than to multiply.
struct Elements {
  explicit Elements(const Operand& x)
      : matrix(x.matrix.to(DType::kFloat64)),
        first(matrix.data<double>() + x.first_column),
        row(x.transposed ? 1 : matrix.dim(1)),
        column(x.transposed ? matrix.dim(1) : 1) {}
  double operator()(std::int64_t i, std::int64_t j) const { return first[i * row + j * column]; }

  Tensor matrix;
  const double* first;
  std::int64_t row, column;
};

void check_product(const Sizes& sizes, bool ta, bool tb, DType dtype) {
  const auto [m, n, k] = sizes;
  INFO(m << " x " << n << " x " << k << ", transposed " << ta << tb << ", " << dtype_name(dtype));
  const Operands x = operands_of(sizes, ta, tb);
  const Elements a(x.a), b(x.b);
  const Tensor c = twice_product(sizes, x, dtype).to(DType::kFloat64);
  const double unit = dtype == DType::kFloat32 ? 0x1p-23 : 0x1p-7;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n + 5; ++j) {
      double expected = 3.0, magnitude = 0.0;
      if (j >= 2 && j < n + 2) {
        expected = 0.0;
        for (std::int64_t p = 0; p < k; ++p) {
          const double term = 2 * a(i, p) * b(p, j - 2);
          expected += term;
          magnitude += std::abs(term);
        }
      }
      const double error = std::abs(c.data<double>()[i * (n + 5) + j] - expected);
      const double sums = 0x1p-23 * std::sqrt(static_cast<double>(k)) * magnitude;
      if (!(error <= unit * std::abs(expected) * 2 + sums)) FAIL("element " << i << ", " << j);
    }
  }
}

bool same_bits(const Tensor& x, const Tensor& y) {
  return x.bytes() == y.bytes() && std::memcmp(x.raw(), y.raw(), x.bytes()) == 0;
}

/// Numbers among which are subnormal ones, infinities and NaN.
Tensor hostile(const Shape& shape, std::uint64_t seed) {
  const Tensor x = normal(shape, seed);
  double* const data = x.data<double>();
  for (std::int64_t i = 0; i < x.numel(); ++i) data[i] *= std::exp2(static_cast<double>(i * 37 % 140) - 70);
  const double rare[] = {0x1p-130, -0x1p-127, std::numeric_limits<double>::infinity(), std::nan("")};
  for (std::int64_t i = 0; i < 4 && i * 97 < x.numel(); ++i) data[i * 97] = rare[i];
  return x.to(DType::kBFloat16);
}

/// c = a b of float32 with the instructions or the plain form of AMX.
Tensor product_by(CpuIsa isa, const Operand& a, const Operand& b) {
  const CpuIsaScope scope(isa);
  return matmul(a, b, DType::kFloat32);
}

/// Whether float32 matrices have the same bits, but for NaN.
bool same_numbers(const Tensor& x, const Tensor& y) {
  const float *a = x.data<float>(), *b = y.data<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    if (a[i] != a[i] && b[i] != b[i]) continue;
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("ops: matmul in the tiles of AMX agrees with plain loops, and touches nothing else", "[one_isa]") {
  for (const CpuIsa isa : {CpuIsa::kAmx, CpuIsa::kAmxPlain}) {
    if (!cpu_has_isa(isa)) continue;
    const CpuIsaScope scope(isa);
    INFO(cpu_isa_name(isa));
    for (const Sizes& sizes : kSizes) {
      for (const bool ta : {false, true}) {
        for (const bool tb : {false, true}) {
          check_product(sizes, ta, tb, DType::kFloat32);
          check_product(sizes, ta, tb, DType::kBFloat16);
        }
      }
    }
  }
}

TEST_CASE("ops: matmul in the tiles of AMX gives the same bits with any number of threads", "[one_isa]") {
  const int threads = num_threads();
  for (const CpuIsa isa : {CpuIsa::kAmx, CpuIsa::kAmxPlain}) {
    if (!cpu_has_isa(isa)) continue;
    const CpuIsaScope scope(isa);
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        const Sizes sizes{270, 200, 530};
        const Operands x = operands_of(sizes, ta, tb);
        for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
          set_num_threads(1);
          const Tensor one = twice_product(sizes, x, dtype);
          for (const int count : kThreadCounts) {
            set_num_threads(count);
            CHECK(same_bits(one, twice_product(sizes, x, dtype)));
          }
        }
      }
    }
  }
  set_num_threads(threads);
}

TEST_CASE("ops: a row of a matmul in the tiles of AMX has the same bits beside any number of rows",
          "[one_isa]") {
  const CpuIsaScope scope(CpuIsa::kAmxPlain);
  for (const std::int64_t k : {7, 300, 1300}) {
    const Tensor a = normal({260, k}, 1).to(DType::kBFloat16), b = normal({70, k}, 2).to(DType::kBFloat16);
    const Tensor all = matmul({a}, transposed(b), DType::kFloat32);
    for (const std::int64_t rows : {1, 12, 13, 16, 17, 48, 49, 63, 64, 65, 128}) {
      const Tensor some = matmul({a.slice(260 - rows, 260)}, transposed(b), DType::kFloat32);
      INFO(rows << " rows, k = " << k);
      CHECK(same_bits(some, all.slice(260 - rows, 260)));
    }
  }
}

TEST_CASE("ops: matmul by the instructions of AMX has the bits of its plain form", "[one_isa]") {
  if (!cpu_has_isa(CpuIsa::kAmx)) MOH_SKIP("this processor, or the system, has no AMX with bfloat16");
  for (const auto& [m, n, k] : kSizes) {
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        INFO(m << " x " << n << " x " << k << ", transposed " << ta << tb);
        const Shape shape_a = ta ? Shape{k, m} : Shape{m, k}, shape_b = tb ? Shape{n, k} : Shape{k, n};
        for (const auto& [a, b] :
             {std::pair(normal(shape_a, 1).to(DType::kBFloat16), normal(shape_b, 2).to(DType::kBFloat16)),
              std::pair(hostile(shape_a, 3), hostile(shape_b, 4))}) {
          CHECK(same_numbers(product_by(CpuIsa::kAmx, {a, ta}, {b, tb}),
                             product_by(CpuIsa::kAmxPlain, {a, ta}, {b, tb})));
        }
      }
    }
  }
}
