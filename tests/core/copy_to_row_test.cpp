#include "core/copy_to_row.h"

#include <array>
#include <catch2/catch.hpp>

#include "core/error.h"

using namespace moh;

TEST_CASE("copy_to_row: parts go to the row of that number, the others stay") {
  const Tensor rows = full({3, 3}, 7, DType::kFloat64), number = zeros({1}, DType::kInt64);
  for (const std::int64_t at : {1, 0}) {
    number.data<std::int64_t>()[0] = at;
    const Tensor first = tensor_of<float>({2}, {10.0F * static_cast<float>(at), 1});
    copy_to_row(rows, number, std::array{first, full({}, 2, DType::kBFloat16)});
  }
  const auto found = rows.span<double>();
  CHECK(std::vector<double>(found.begin(), found.end()) == std::vector<double>{0, 1, 2, 10, 1, 2, 7, 7, 7});
  copy_to_row(zeros({3, 0}, DType::kFloat64), number, {});
  number.data<std::int64_t>()[0] = 3;
  CHECK_THROWS_AS(copy_to_row(rows, number, std::array{rows.select(0)}), InternalError);
  CHECK_THROWS_AS(copy_to_row(rows, number, std::array{rows}), InternalError);
  CHECK_THROWS_AS(copy_to_row(full({3, 3}, 7, DType::kFloat32), number, std::array{rows.select(0)}),
                  InternalError);
}
