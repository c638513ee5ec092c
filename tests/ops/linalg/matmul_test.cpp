#include "ops/linalg/matmul.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/cpu_isa.h"
#include "core/error.h"
#include "core/parallel.h"
#include "tests/ops/op_cases.h"
#include "tests/ops/thread_counts.h"
#include "tests/support/every_isa.h"

using namespace moh;
using namespace moh::test;

namespace {

Operand converted(const Operand& x, DType dtype) {
  return {x.matrix.to(dtype), x.transposed};
}

/// Rows of x, or its columns where `columns`, one after the other: what a plain loop reads in order.
std::vector<double> lines_of(const Operand& x, bool columns) {
  const std::int64_t height = x.matrix.dim(0), width = x.matrix.dim(1);
  const auto values = x.matrix.span<double>();
  std::vector<double> lines(values.begin(), values.end());
  if (x.transposed == columns) return lines;
  for (std::int64_t i = 0; i < height; ++i) {
    for (std::int64_t j = 0; j < width; ++j) lines[j * height + i] = values[i * width + j];
  }
  return lines;
}

/// An element of a product, and the magnitude that its partial sums reach.
struct Sum {
  double value, peak;
};

Sum plain_sum(const double* a, const double* b, std::int64_t k) {
  long double sum = 0;  // its own rounding would eat up the tolerance
  double peak = 8;
  for (std::int64_t p = 0; p < k; ++p) {
    sum += static_cast<long double>(a[p]) * b[p];
    peak = std::max(peak, std::abs(static_cast<double>(sum)));
  }
  return {static_cast<double>(sum), peak};
}

void check_product(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  INFO(m << " x " << n << " x " << k << ", transposed " << ta << tb);
  const Operand a{normal(ta ? Shape{k, m} : Shape{m, k}, 1), ta},
      b{normal(tb ? Shape{n, k} : Shape{k, n}, 2), tb};
  const std::vector<double> rows = lines_of(a, false), columns = lines_of(b, true);
  std::vector<Sum> expected(m * n);
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j)
      expected[i * n + j] = plain_sum(rows.data() + i * k, columns.data() + j * k, k);
  }
  for (DType dtype : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
    const Tensor start = normal({m, n}, 3).to(dtype);
    const Tensor product = matmul(converted(a, dtype), converted(b, dtype), dtype).to(DType::kFloat64);
    const Tensor added = start.clone();
    matmul_into(added, converted(a, dtype), converted(b, dtype), /*accumulate=*/true);
    const Tensor wide = added.to(DType::kFloat64), wide_start = start.to(DType::kFloat64);
    const double* const found = product.data<double>();
    const double* const sum = wide.data<double>();
    const double* const before = wide_start.data<double>();
    const double unit = dtype == DType::kFloat64 ? 0x1p-52 : dtype == DType::kFloat32 ? 0x1p-23 : 0x1p-7;
    // Partial sums grow like the root of k, and so the errors of k roundings like k; more where they happen
    // to be large.
    const double usual = unit * (static_cast<double>(k) + 16);
    for (std::int64_t i = 0; i < m * n; ++i) {
      const double tolerance = usual * expected[i].peak / 8;
      if (!(std::abs(found[i] - expected[i].value) <= tolerance)) FAIL(dtype_name(dtype));
      if (!(std::abs(sum[i] - (expected[i].value + before[i])) <= tolerance)) FAIL(dtype_name(dtype));
    }
  }
}

}  // namespace

TEST_CASE("ops: matmul agrees with plain loops in all layouts") {
  for (bool ta : {false, true}) {
    for (bool tb : {false, true}) {
      check_product(1, 1, 1, ta, tb);
      check_product(3, 5, 7, ta, tb);
      check_product(65, 17, 33, ta, tb);
      check_product(2, 300, 40, ta, tb);
      check_product(12, 128, 300, ta, tb);  // b in place, if it is not transposed
      check_product(50, 16, 70, ta, tb);    // one narrow panel: a in place
      check_product(250, 270, 5, ta, tb);   // more than one task each way
      check_product(7, 66, 800, ta, tb);    // more than one block of the depth
      check_product(131, 66, 530, ta, tb);  // b packed for all tasks, rows that end inside a tile
      check_product(4, 4, 0, ta, tb);
      check_product(0, 4, 3, ta, tb);
    }
  }
  check_product(49, 1100, 1030, false, true);  // more blocks of the depth than are packed at a time
  check_product(49, 2100, 256, false, true);   // more columns than that, in float64
  check_product(64, 128, 8200, false, true);   // as its transpose, which adds to what is there
  check_product(70, 155, 530, false, true);    // computed as its transpose
  check_product(128, 1000, 33, false, true);
  for (bool tb : {false, true}) check_product(1100, 67, 515, true, tb);  // long rows, more than a task's
  check_product(67, 1100, 515, true, false);
}

TEST_CASE("ops: matmul gives the same bits with any number of threads") {
  const int threads = num_threads();
  for (DType dtype : {DType::kFloat32, DType::kFloat64}) {
    const Tensor a = normal({514, 400}).to(dtype), b = normal({400, 390}).to(dtype);
    const Tensor wide = normal({514, 1030}).to(dtype), turned = normal({390, 400}).to(dtype);
    const std::pair<Operand, Operand> factors[] = {
        {{a}, {b}}, {transposed(b), {b}}, {transposed(wide), {a}}, {{a}, transposed(turned)}};
    for (const auto& [left, right] : factors) {
      set_num_threads(1);
      const Tensor one = matmul(left, right, dtype);
      for (const int count : kThreadCounts) {
        set_num_threads(count);
        const Tensor several = matmul(left, right, dtype);
        CHECK(std::memcmp(one.raw(), several.raw(), one.bytes()) == 0);
      }
    }
  }
  set_num_threads(threads);
}

TEST_CASE("ops: a row of a matrix multiplication has the same bits beside any number of rows") {
  // Few rows and many go different ways: with their own packing, transposed, with all threads packing.
  for (const std::int64_t k : {7, 300, 9000}) {
    const Tensor a = normal({520, k}, 1).to(DType::kFloat32), b = normal({140, k}, 2).to(DType::kFloat32);
    const Tensor all = matmul({a}, transposed(b), DType::kFloat32);
    for (const std::int64_t rows : {1, 2, 7, 12, 13, 48, 49, 63, 64, 65, 70, 127, 128, 512, 513}) {
      const Tensor some = matmul({a.slice(520 - rows, 520)}, transposed(b), DType::kFloat32);
      INFO(rows << " rows, k = " << k);
      CHECK(std::memcmp(some.raw(), all.slice(520 - rows, 520).raw(), some.bytes()) == 0);
    }
  }
}

TEST_CASE("ops: matmul reads and writes some columns of wider matrices") {
  for (DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16}) {
    const Tensor a = normal({7, 20}, 1).to(dtype), b = normal({20, 30}, 2).to(dtype);
    const Tensor c = full({7, 12}, 3.0, dtype);
    matmul_into(columns_of(c, 2, 5), columns_of(a, 4, 9), columns_of(b.slice(4, 13), 10, 5));
    const Tensor wide = c.to(DType::kFloat64), wide_a = a.to(DType::kFloat64), wide_b = b.to(DType::kFloat64);
    for (std::int64_t i = 0; i < 7; ++i) {
      for (std::int64_t j = 0; j < 12; ++j) {
        double expected = 3.0;
        if (j >= 2 && j < 7) {
          expected = 0;
          for (std::int64_t k = 4; k < 13; ++k) {
            expected += wide_a.data<double>()[i * 20 + k] * wide_b.data<double>()[k * 30 + 8 + j];
          }
        }
        CHECK(wide.data<double>()[i * 12 + j] ==
              Approx(expected).epsilon(dtype == DType::kBFloat16 ? 1e-2 : 1e-5).margin(1e-5));
      }
    }
  }
  const Tensor a = normal({3, 4}), c = normal({3, 3});
  CHECK_THROWS_AS(matmul_into(c, columns_of(a, 2, 3), c), ShapeError);
}

TEST_CASE("ops: a bias is added to the sums of a matmul before they are rounded", "[every_isa]") {
  // Through each way of multiplying: alone, together, computed as the transpose, in several blocks of k.
  constexpr std::int64_t kSizes[][3] = {{1, 3, 7},      {7, 66, 1100},  {131, 66, 530},
                                        {70, 155, 530}, {49, 1100, 33}, {200, 48, 1030}};
  for (const CpuIsa isa : every_isa()) {
    const CpuIsaScope scope(isa);
    for (const auto& [m, n, k] : kSizes) {
      for (const DType from : {DType::kFloat64, DType::kFloat32, DType::kBFloat16}) {
        INFO(cpu_isa_name(isa) << ", " << m << " x " << n << " x " << k << ", " << dtype_name(from));
        const Tensor a = normal({m, k}, 1).to(from), b = normal({n, k}, 2).to(from);
        const DType sums = accumulate_dtype(from);
        const Tensor bias = normal({n}, 3).to(from), expected = matmul({a}, transposed(b), sums);
        for (std::int64_t i = 0; i < m; ++i) expected.slice(i, i + 1).add(bias.reshape({1, n}));
        for (const DType to : {from, sums}) {
          const Tensor c = empty({m, n}, to);
          matmul_bias_into(c, a, transposed(b), bias.to(to));
          CHECK(std::memcmp(c.raw(), expected.to(to).raw(), c.bytes()) == 0);
        }
      }
    }
  }
}

TEST_CASE("ops: matmul refuses matrices that do not fit") {
  const Tensor a = normal({3, 4});
  CHECK_THROWS_WITH(matmul({a}, {a}, DType::kFloat64),
                    "matmul: expected [m, k] [k, n] -> [m, n], found [3, 4] [3, 4] -> [3, 4]");
  CHECK_THROWS_AS(matmul_into(normal({3, 3, 1}), {a}, transposed(a)), ShapeError);
}
