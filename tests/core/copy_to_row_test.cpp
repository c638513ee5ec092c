#include "core/copy_to_row.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace moh;

TEST_CASE("copy_to_row: the row goes to its number, the others stay") {
  const Tensor rows = full({3, 2}, 7, DType::kFloat64), number = zeros({1}, DType::kInt64);
  for (const std::int64_t at : {1, 0}) {
    number.data<std::int64_t>()[0] = at;
    copy_to_row(rows, number, tensor_of<double>({2}, {10.0 * static_cast<double>(at), 1}));
  }
  const auto found = rows.span<double>();
  CHECK(std::vector<double>(found.begin(), found.end()) == std::vector<double>{0, 1, 10, 1, 7, 7});
  number.data<std::int64_t>()[0] = 3;
  CHECK_THROWS_AS(copy_to_row(rows, number, rows.select(0)), InternalError);
  CHECK_THROWS_AS(copy_to_row(rows, number, rows), InternalError);
  CHECK_THROWS_AS(copy_to_row(rows, number, full({2}, 1, DType::kFloat32)), InternalError);
}
