#include "ops/loss/top1.h"

#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Rows of four classes, and how many of them are right.
struct Rows4 {
  std::vector<double> logits, targets;
};
const Rows4 rows = {{
                        1,    3,    2,    0,    // class 1
                        0,    0,    0,    0,    // a tie: class 0
                        -5,   -4,   -9,   -4,   // a tie: class 1
                        kNan, -7,   kNan, -8,   // class 1
                        9,    kNan, 0,    0,    // class 0
                        kNan, kNan, kNan, kNan  // class 0
                    },
                    {
                        0,   1,   0,   0,    //
                        0.1, 0.7, 0.1, 0.1,  // wrong
                        0.2, 0.6, 0.2, 0,    //
                        0.5, 0.5, 0,   0,    // a tie of two mixed pictures: class 0, wrong
                        0.9, 0.1, 0,   0,    //
                        1,   0,   0,   0     //
                    }};
constexpr double kExpected = 4.0 / 6;

double share_of(DType dtype) {
  const Tensor logits = tensor_of<double>({6, 4}, rows.logits).to(dtype);
  return top1_share(logits, tensor_of<double>({6, 4}, rows.targets).to(accumulate_dtype(dtype))).item();
}

}  // namespace

TEST_CASE("ops: the share of rows whose largest logit is that of the largest target") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64})
    CHECK(share_of(dtype) == Approx(kExpected));
  CHECK(top1_share(empty({0, 3}, DType::kFloat32), empty({0, 3}, DType::kFloat32)).item() == 0);
  CHECK_THROWS_AS(top1_share(normal({2, 3}), normal({2, 4})), ShapeError);
  CHECK_THROWS_AS(top1_share(normal({2, 3, 1}), normal({2, 3, 1})), ShapeError);
  CHECK_THROWS_AS(top1_share(normal({2, 3}), normal({2, 3}).to(DType::kFloat32)), DTypeError);
}

TEST_CASE("ops: the class of the largest logit of each row") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const Tensor classes = top1(tensor_of<double>({6, 4}, rows.logits).to(dtype));
    const auto found = classes.span<std::int64_t>();
    CHECK(std::vector<std::int64_t>(found.begin(), found.end()) ==
          std::vector<std::int64_t>{1, 0, 1, 1, 0, 0});
  }
  CHECK(top1(empty({0, 3}, DType::kFloat32)).shape() == Shape{0});
  CHECK_THROWS_WITH(top1(empty({2, 0}, DType::kFloat32)),
                    Catch::Contains("top1: logits: expected a class or more, found [2, 0]"));
  CHECK_THROWS_AS(top1(normal({2, 3, 1})), ShapeError);
  CHECK_THROWS_AS(top1(zeros({2, 3}, DType::kInt64)), DTypeError);
}
