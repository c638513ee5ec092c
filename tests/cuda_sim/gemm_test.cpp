#include <catch2/catch.hpp>
#include <regex>

#include "core/error.h"
#include "ops/linalg/linear.h"
#include "ops/linalg/matmul.h"
#include "tests/cuda_sim/gemm_fixture.h"

// Products as they are asked of cuBLASLt, which is simulated: plans, epilogues, the search and its file.

using namespace moh;
using namespace moh::test;
using sim::Cublas;

namespace {

Tensor product(DType dtype = DType::kFloat32) {
  return matmul(on_gpu({24, 40}, dtype, 1), transposed(on_gpu({16, 40}, dtype, 2)), dtype).to(kCpu);
}

/// y = x w^T + b, and dw = dy^T x with db, the sums of the rows of dy^T.
std::vector<Tensor> linear_products() {
  const Tensor x = on_gpu({48, 8}, DType::kFloat32, 1), w = on_gpu({16, 8}, DType::kFloat32, 2);
  const Tensor b = on_gpu({16}, DType::kFloat32, 3), dy = on_gpu({48, 16}, DType::kFloat32, 4);
  const Tensor y = empty({48, 16}, DType::kFloat32, x.device()), dw = empty_like(w), db = empty_like(b);
  matmul_bias_into(y, x, transposed(w), b);
  matmul_row_sums_into(dw, transposed(dy), x, db);
  return {y.to(kCpu), dw.to(kCpu), db.to(kCpu)};
}

/// c = op(a) op(b) and c += op(a) op(b) on the GPU against the CPU.
void check_product(std::int64_t m, std::int64_t n, std::int64_t k, bool ta, bool tb) {
  INFO(m << " x " << n << " x " << k << (ta ? " T" : " N") << (tb ? "T" : "N"));
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor a = on_gpu(ta ? Shape{k, m} : Shape{m, k}, dtype, 1);
    const Tensor b = on_gpu(tb ? Shape{n, k} : Shape{k, n}, dtype, 2);
    const Tensor c = on_gpu({m, n}, DType::kFloat32, 3), expected = c.to(kCpu);
    for (const bool accumulate : {false, true}) {
      matmul_into(c, {a, ta}, {b, tb}, accumulate);
      matmul_into(expected, {a.to(kCpu), ta}, {b.to(kCpu), tb}, accumulate);
      check_close(c.to(kCpu), expected, 1e-5 * static_cast<double>(k + 16), "product");
    }
  }
}

}  // namespace

TEST_CASE("sim: products in all layouts, with every algorithm, are the CPU's", "[sim]") {
  for (const int fastest : {11, 12, 13}) {
    std::string found;
    const Gemms gemms(searching(found));
    Cublas::instance().milliseconds[fastest] = 0.5;
    for (const bool ta : {false, true}) {
      for (const bool tb : {false, true}) {
        check_product(16, 24, 32, ta, tb);
        check_product(3, 5, 7, ta, tb);
        check_product(1, 1, 1, ta, tb);
        check_product(8, 9, 0, ta, tb);
      }
    }
    CHECK(Gemms::runs(fastest) > 0);
  }
}

TEST_CASE("sim: some columns of wider matrices, at any alignment", "[sim]") {
  const Gemms gemms;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor a = on_gpu({7, 20}, dtype, 1), b = on_gpu({20, 30}, dtype, 2), c = on_gpu({7, 12}, dtype, 3);
    const Tensor expected = c.to(kCpu);
    for (const std::int64_t first : {0, 1, 4}) {
      matmul_into(columns_of(c, first, 5), columns_of(a, first, 9), columns_of(b.slice(4, 13), first, 5));
      matmul_into(columns_of(expected, first, 5), columns_of(a.to(kCpu), first, 9),
                  columns_of(b.to(kCpu).slice(4, 13), first, 5));
      check_close(c.to(kCpu), expected, dtype == DType::kBFloat16 ? 0.1 : 1e-4, "columns");
    }
  }
}

TEST_CASE("sim: an algorithm that needs aligned matrices is not asked for others", "[sim]") {
  const Gemms gemms;
  Cublas::instance().proposes_aligned_first = true;
  const Tensor a = on_gpu({8, 24}, DType::kFloat32, 1), b = on_gpu({24, 24}, DType::kFloat32, 2);
  const Tensor c = on_gpu({8, 24}, DType::kFloat32, 3);
  const auto multiply = [&](std::int64_t from_a, std::int64_t from_b, std::int64_t from_c) {
    matmul_into(columns_of(c, from_c, 16), columns_of(a, from_a, 8), columns_of(b.slice(0, 8), from_b, 16));
  };
  multiply(0, 4, 8);  // 16 bytes are four elements
  CHECK(Gemms::runs(12) == 1);
  multiply(1, 0, 0);  // the second factor of cuBLASLt's product, which it takes as it is
  CHECK(Gemms::runs(12) == 2);
  multiply(0, 2, 0);
  multiply(0, 0, 3);
  CHECK(Gemms::runs(12) == 2);
  CHECK(Gemms::runs(11) == 2);
}

TEST_CASE("sim: without a search, the first proposal that sums in a fixed order", "[sim]") {
  const Gemms gemms;
  product();
  product();
  CHECK(Gemms::runs(11) == 2);  // the first proposal is a reduction in the output
  CHECK(Cublas::instance().calls.size() == 1);
}

TEST_CASE("sim: of proposals that are refused the next one is taken, which is said once", "[sim]") {
  const auto result_with = [](int refused, std::vector<std::string>& said) {
    GemmOptions options;
    options.on_refused = [&said](const std::string& refusal) { said.push_back(refusal); };
    const Gemms gemms(options);
    if (refused != 0) Cublas::instance().refused = {refused};
    product();
    Tensor result = product();
    CHECK(Gemms::runs(11) == (refused == 11 ? 0 : 2));
    CHECK(Gemms::runs(11) + Gemms::runs(12) + Gemms::runs(13) == 2);
    return result;
  };
  std::vector<std::string> nothing, said;
  const Tensor expected = result_with(0, nothing);
  CHECK(nothing.empty());
  check_close(result_with(11, said), expected, 1e-4, "another algorithm");
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0],
             Catch::Contains("matrix multiplication NT 24x16x40") &&
                 Catch::Contains("proposal 1 is refused (CUBLAS_STATUS_NOT_SUPPORTED); the next of "));
  const Gemms gemms;
  Cublas::instance().refused = {11, 12, 13};
  CHECK_THROWS_WITH(product(), Catch::Contains("cublasLtMatmul"));
}

TEST_CASE("sim: the search takes the fastest algorithm, once for each product", "[sim]") {
  std::string found;
  const Gemms gemms(searching(found));
  product();
  const int runs = Gemms::runs(12);
  CHECK(Gemms::runs(11) == 5);  // to warm up, and four rounds
  CHECK(Gemms::runs(13) == 5);
  CHECK(runs == 6);
  product();
  CHECK(Gemms::runs(12) == runs + 1);
  CHECK(Gemms::runs(11) == 5);
  CHECK_THAT(found,
             Catch::Contains("cuBLASLt 130100, simulated GPU\n"
                             "NT 24x16x40 ld 40 40 16 align 256 256 256 256 float32 float32: fused id 12 "));
}

TEST_CASE("sim: with the algorithms of an earlier run, the bits of that run", "[sim]") {
  std::string found;
  Tensor first;
  {
    const Gemms gemms(searching(found));
    first = product();
  }
  const std::string kept = found;
  found.clear();
  GemmOptions again = searching(found);
  again.algorithms = kept;
  {
    const Gemms gemms(again);
    Cublas::instance().milliseconds = {{11, 1}, {12, 9}, {13, 9}};  // a search would choose otherwise today
    CHECK(same_bits(product(), first));
    CHECK(Gemms::runs(12) == 1);
    CHECK(Gemms::runs(11) + Gemms::runs(13) == 0);
    CHECK(found.empty());
    product(DType::kBFloat16);  // a new one joins the others
    CHECK_THAT(found, Catch::Contains(kept.substr(kept.find("NT "))) && Catch::Contains("bfloat16 bfloat16"));
  }
  const Gemms gemms;
  CHECK_FALSE(same_bits(product(), first));
}

TEST_CASE("sim: the algorithms of an earlier run, epilogues included", "[sim]") {
  std::string found;
  std::vector<Tensor> first;
  {
    const Gemms gemms(searching(found));
    Cublas::instance().milliseconds[11] = 0.5;  // it has every epilogue
    first = linear_products();
  }
  CHECK_THAT(found, Catch::Contains("row_sums: fused id") && Catch::Contains("bias: fused id"));
  GemmOptions again;
  again.algorithms = found;
  const Gemms gemms(again);
  const std::vector<Tensor> second = linear_products();
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(same_bits(first[i], second[i]));
}

TEST_CASE("sim: algorithms of another GPU, or that the library refuses, are errors", "[sim]") {
  std::string found;
  {
    const Gemms gemms(searching(found));
    product();
  }
  const auto with = [&](const std::string& from, const std::string& to) {
    GemmOptions options;
    options.algorithms = std::regex_replace(found, std::regex(from), to);
    REQUIRE(options.algorithms != found);
    options.algorithms_name = "gemm.txt";
    return options;
  };
  CHECK_THROWS_WITH(set_gemm_options(with("simulated GPU", "GPU of yesterday")),
                    Catch::Contains("gemm.txt:2: expected algorithms for cuBLASLt 130100, simulated GPU"));
  for (const auto& [from, to] : {std::pair("id 12", "id 99"),                       // none of that number
                                 {"tile 2", "tile 77"},                             // not of this algorithm
                                 {"splits 1 reduction 0", "splits 4 reduction 1"},  // sums in no fixed order
                                 {"id 12 tile 2 splits 1 reduction 0", "id 13 tile 2 splits 4 reduction 1"},
                                 {"cluster_shape 0", "cluster_shape 65536"}}) {  // no number of that size
    INFO(to);
    const Gemms gemms(with(from, to));
    CHECK_THROWS_AS(product(), DataError);
    CHECK_THROWS_WITH(product(), Catch::StartsWith("gemm.txt: NT 24x16x40 ld 40 40 16"));
  }
}

TEST_CASE("sim: a search never writes to a result that is added to", "[sim]") {
  std::string found;
  const Gemms gemms(searching(found));
  const Tensor a = on_gpu({24, 40}, DType::kFloat32, 1), b = on_gpu({40, 16}, DType::kFloat32, 2);
  const Tensor c = on_gpu({24, 16}, DType::kFloat32, 3), expected = c.to(kCpu);
  matmul_into(c, {a}, {b}, /*accumulate=*/true);
  matmul_into(expected, {a.to(kCpu)}, {b.to(kCpu)}, /*accumulate=*/true);
  check_close(c.to(kCpu), expected, 1e-4, "sum");
  CHECK(Gemms::runs(12) > 1);
}

TEST_CASE("sim: TF32 only when it is asked for, and of float32 only", "[sim]") {
  Tensor exact;
  {
    const Gemms gemms;
    exact = product();
    CHECK(Cublas::instance().calls.begin()->first.tf32 == false);
  }
  const Gemms gemms;
  const MathModeScope mode({.tf32 = true});
  const Tensor rounded = product();
  CHECK(Cublas::instance().calls.begin()->first.tf32);
  CHECK_FALSE(same_bits(exact, rounded));
  check_close(rounded, exact, 0.05, "TF32");
  Cublas::instance().calls.clear();
  product(DType::kBFloat16);
  CHECK(Cublas::instance().calls.begin()->first.tf32 == false);
}

TEST_CASE("sim: a gradient is multiplied as its forward pass was, whatever the mode has become", "[sim]") {
  const Gemms gemms;
  const Variable x(on_gpu({8, 16}, DType::kFloat32, 1), true), w(on_gpu({8, 16}, DType::kFloat32, 2), true);
  Variable y;
  {
    const MathModeScope mode({.tf32 = true});
    y = linear(x, w);
  }
  y.backward(on_gpu({8, 8}, DType::kFloat32, 3));
  int products = 0;
  for (const auto& [call, count] : Cublas::instance().calls) {
    CHECK(call.tf32);
    products += count;
  }
  CHECK(products == 3);
  CHECK_FALSE(math_mode().tf32);
}

TEST_CASE("sim: a bias and its gradient are part of the products", "[sim]") {
  const Gemms gemms;
  const auto leaf = [](const Shape& shape, std::uint64_t seed) {
    return Variable(on_gpu(shape, DType::kBFloat16, seed), true);
  };
  const Variable x = leaf({6, 8}, 1), w = leaf({16, 8}, 2), b = leaf({16}, 3);
  const Variable y = linear(x, w, b);
  CHECK(Gemms::runs(11, kBias) == 1);
  y.backward(on_gpu({6, 16}, DType::kBFloat16, 4));
  CHECK(Gemms::runs(11, kRowSums) == 1);
  CHECK(Gemms::runs(11, kPlain) == 1);  // the gradient of x
}

TEST_CASE("sim: a bias is a kernel of its own where that is faster, or all there is", "[sim]") {
  std::vector<Tensor> expected;
  {
    const Gemms gemms;
    expected = linear_products();
    CHECK(Gemms::runs(11, kPlain) == 0);
  }
  const auto check = [&](const std::vector<Tensor>& found) {
    for (std::size_t i = 0; i < found.size(); ++i)
      check_close(found[i], expected[i], 1e-4, std::to_string(i));
  };
  {
    const Gemms gemms;
    Cublas::instance().has_epilogues = false;
    check(linear_products());
    CHECK(Gemms::runs(11, kPlain) == 2);
  }
  std::string found;
  const Gemms gemms(searching(found));
  Cublas::instance().milliseconds = {{11, 3}, {12, 3}, {13, 1}};  // 13 has no epilogues
  check(linear_products());
  CHECK_THAT(found, Catch::Contains("row_sums: separate id 13") && Catch::Contains("bias: separate id 13"));
}
