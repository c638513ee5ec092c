#include "ops/embedding/embedding.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "tests/ops/embedding/run_checks.h"
#include "tests/ops/op_cases.h"

using namespace moh;
using namespace moh::test;

namespace {

Tensor random_ids(const Shape& shape, std::int64_t bound, DType dtype) {
  Tensor ids = empty(shape, DType::kInt64);
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    ids.data<std::int64_t>()[i] = static_cast<std::int64_t>(
        random_below({3, 1}, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(bound)));
  }
  return ids.to(dtype);
}

std::vector<Tensor> embedding_reference(const std::vector<Tensor>& in) {
  const Tensor ids = in[1].to(DType::kInt64);
  std::vector<std::int64_t> extents(ids.shape().extents().begin(), ids.shape().extents().end());
  const std::int64_t width = in[0].dim(1);
  extents.push_back(width);
  Tensor y = empty(Shape(std::span<const std::int64_t>(extents)), DType::kFloat64);
  for (std::int64_t n = 0; n < ids.numel(); ++n) {
    for (std::int64_t j = 0; j < width; ++j) {
      y.data<double>()[n * width + j] = in[0].data<double>()[ids.data<std::int64_t>()[n] * width + j];
    }
  }
  return {y};
}

}  // namespace

OP_CASES(embedding) {
  struct Sizes {
    std::int64_t rows, width;
    Shape ids;
  };
  OpCases cases;
  for (const Sizes& s : {Sizes{1, 1, {1}}, Sizes{5, 3, {}}, Sizes{7, 17, {2, 3}}, Sizes{6, 4, {0, 3}},
                         Sizes{3, 0, {2}}, Sizes{2, 5, {40}}, Sizes{3, 6, {100}}, Sizes{300, 1, {1030}}}) {
    for (const DType dtype : {DType::kInt32, DType::kInt64}) {
      cases.push_back({.name = std::to_string(s.rows) + " rows of " + std::to_string(s.width) + ", ids " +
                               to_string(s.ids) + " " + std::string(dtype_name(dtype)),
                       .inputs = {normal({s.rows, s.width}), random_ids(s.ids, s.rows, dtype)},
                       .run = [](const Inputs& in) { return Outputs{embedding(in[0], in[1].value())}; },
                       .reference = embedding_reference});
    }
  }
  return cases;
}

TEST_CASE("ops: embedding sums the gradients of repeated ids in float32") {
  // 257 is not a bfloat16 number: a bfloat16 running sum would stay at 256.
  const Tensor ids = zeros({1000}, DType::kInt64);
  const Variable table(zeros({2, 3}, DType::kBFloat16), true);
  embedding(table, ids).backward(full({1000, 3}, 1.0, DType::kBFloat16));
  CHECK(table.grad().to(DType::kFloat64).data<double>()[0] == 1000.0);
  CHECK(table.grad().to(DType::kFloat64).data<double>()[3] == 0.0);
}

TEST_CASE("ops: embedding sums runs of ids across all borders") {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64})
    check_embedding_runs(kCpu, dtype);
}

TEST_CASE("ops: embedding has the same gradient bits with any number of threads") {
  Tensor ids = random_ids({5, 700}, 300, DType::kInt64);
  for (std::int64_t i = 0; i < ids.numel(); i += 3) ids.data<std::int64_t>()[i] = 7;  // across many chunks
  const Tensor dy = normal({5, 700, 96}).to(DType::kFloat32);
  const auto gradient = [&](int threads) {
    set_num_threads(threads);
    const Variable table(zeros({300, 96}, DType::kFloat32), true);
    embedding(table, ids).backward(dy);
    return table.grad();
  };
  const int threads = num_threads();
  const Tensor one = gradient(1), four = gradient(4);
  set_num_threads(threads);
  CHECK(std::memcmp(one.raw(), four.raw(), one.bytes()) == 0);
}

TEST_CASE("ops: embedding refuses what does not fit") {
  const Variable table(normal({7, 4}));
  CHECK_THROWS_WITH(embedding(table, tensor_of<std::int64_t>({2, 3}, {0, 1, 2, 3, 7, 4})),
                    "embedding: ids: expected 0 to 6 (rows of table), found 7 at [1, 1]");
  CHECK_THROWS_WITH(embedding(table, tensor_of<std::int32_t>({2}, {0, -1})),
                    "embedding: ids: expected 0 to 6 (rows of table), found -1 at [1]");
  CHECK_THROWS_WITH(embedding(table, normal({2})), "embedding: ids: expected int32 or int64, found float64");
  CHECK_THROWS_AS(embedding(table, Tensor()), ValueError);
  CHECK_THROWS_AS(embedding(Variable(normal({7})), zeros({1}, DType::kInt64)), ShapeError);
  CHECK_THROWS_AS(embedding(Variable(), zeros({1}, DType::kInt64)), ValueError);
}
