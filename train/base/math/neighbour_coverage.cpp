#include "train/base/math/neighbour_coverage.h"

#include <algorithm>
#include <limits>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/linalg/matmul.h"

namespace moh {

namespace {

constexpr std::int64_t kHeldPoints = 256;  // points whose distances are held

/// Points around their common centre, which keeps what cancels in a distance small, and their squared
/// lengths.
struct Points {
  Tensor rows;
  std::vector<double> squares;
};

Points around(const Tensor& rows, const std::vector<double>& centre) {
  Points points{rows.clone(), std::vector<double>(static_cast<std::size_t>(rows.dim(0)))};
  const std::int64_t width = rows.dim(1);
  parallel_for(rows.dim(0), 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      double* row = points.rows.data<double>() + i * width;
      double sum = 0;
      for (std::int64_t j = 0; j < width; ++j) {
        row[j] -= centre[static_cast<std::size_t>(j)];
        sum += row[j] * row[j];
      }
      points.squares[static_cast<std::size_t>(i)] = sum;
    }
  });
  return points;
}

/// Calls `use(i, row)` for each point i of `from` with its squared distances to all points of `to`.
void each_row_of_distances(const Points& from, const Points& to,
                           FunctionRef<void(std::int64_t, std::span<double>)> use,
                           FunctionRef<void(std::int64_t)> block_done) {
  const std::int64_t count = from.rows.dim(0), others = to.rows.dim(0);
  for (std::int64_t first = 0; first < count; first += kHeldPoints) {
    const std::int64_t last = std::min(first + kHeldPoints, count);
    const Tensor products = matmul(from.rows.slice(first, last), transposed(to.rows), DType::kFloat64);
    parallel_for(last - first, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::span<double> row(products.data<double>() + r * others, static_cast<std::size_t>(others));
        const double own = from.squares[static_cast<std::size_t>(first + r)];
        for (std::size_t j = 0; j < row.size(); ++j) row[j] = std::max(0.0, own + to.squares[j] - 2 * row[j]);
        use(first + r, row);
      }
    });
    block_done(last - first);
  }
}

}  // namespace

Coverage neighbour_coverage(const Tensor& reference, const Tensor& samples, std::int64_t neighbours,
                            FunctionRef<void(double)> done) {
  const std::int64_t n = reference.dim(0), m = samples.dim(0), width = reference.dim(1);
  if (samples.dim(1) != width || std::min(n, m) <= neighbours)
    throw ShapeError(error_message("neighbour coverage", "points",
                                   "more than " + std::to_string(neighbours) + ", of one width",
                                   to_string(reference.shape()) + " and " + to_string(samples.shape())));
  std::vector<double> centre(static_cast<std::size_t>(width));
  for (std::int64_t i = 0; i < n * width; ++i)
    centre[static_cast<std::size_t>(i % width)] += reference.data<double>()[i] / static_cast<double>(n);
  const Points a = around(reference, centre), b = around(samples, centre);

  const auto work = static_cast<double>(n) * static_cast<double>(n) +
                    static_cast<double>(m) * static_cast<double>(m) +
                    static_cast<double>(n) * static_cast<double>(m);
  double finished = 0;
  const auto radii_of = [&](const Points& points) {
    const std::int64_t count = points.rows.dim(0);
    std::vector<double> radii(static_cast<std::size_t>(count));
    each_row_of_distances(
        points, points,
        [&](std::int64_t i, std::span<double> row) {
          row[static_cast<std::size_t>(i)] = std::numeric_limits<double>::infinity();
          std::ranges::nth_element(row, row.begin() + (neighbours - 1));
          radii[static_cast<std::size_t>(i)] = row[static_cast<std::size_t>(neighbours - 1)];
        },
        [&](std::int64_t rows) {
          finished += static_cast<double>(rows) * static_cast<double>(count);
          done(finished / work);
        });
    return radii;
  };
  const std::vector<double> reach_of_a = radii_of(a), reach_of_b = radii_of(b);
  // Row i is that of a sample, whose distances to all of the reference say both: which of these cover it, and
  // which it covers. The latter are gathered by sample and joined after the block.
  std::vector<std::uint8_t> sample_covered(static_cast<std::size_t>(m)),
      covers(static_cast<std::size_t>(kHeldPoints * n)), reference_covered(static_cast<std::size_t>(n));
  std::int64_t first = 0;
  each_row_of_distances(
      b, a,
      [&](std::int64_t i, std::span<double> row) {
        std::uint8_t covered = 0;
        std::uint8_t* own = covers.data() + (i - first) * n;
        const double reach = reach_of_b[static_cast<std::size_t>(i)];
        for (std::size_t j = 0; j < row.size(); ++j) {
          covered |= static_cast<std::uint8_t>(row[j] <= reach_of_a[j]);
          own[j] = static_cast<std::uint8_t>(row[j] <= reach);
        }
        sample_covered[static_cast<std::size_t>(i)] = covered;
      },
      [&](std::int64_t rows) {
        for (std::int64_t k = 0; k < rows * n; ++k)
          reference_covered[static_cast<std::size_t>(k % n)] |= covers[static_cast<std::size_t>(k)];
        first += rows;
        finished += static_cast<double>(rows) * static_cast<double>(n);
        done(finished / work);
      });
  const auto share = [](const std::vector<std::uint8_t>& flags) {
    return static_cast<double>(std::ranges::count(flags, 1)) / static_cast<double>(flags.size());
  };
  return {share(sample_covered), share(reference_covered)};
}

}  // namespace moh
