#include "core/tensor.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/allocator.h"
#include "core/cpu_isa.h"
#include "core/error.h"
#include "tests/support/every_isa.h"

using namespace moh;

namespace {

constexpr std::array kAllDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                                   DType::kInt32,   DType::kInt64,    DType::kUInt8};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("tensor: a slice of the leading dimension is a view") {
  const Tensor x = tensor_of<float>({3, 2}, {0, 1, 2, 3, 4, 5});
  const Tensor row = x.select(1);
  REQUIRE(row.shape() == Shape{2});
  row.fill(7);
  CHECK(x.data<float>()[1] == 1);
  CHECK(x.data<float>()[2] == 7);
  CHECK(x.data<float>()[3] == 7);
  CHECK(x.data<float>()[4] == 4);
  CHECK(x.slice(1, 3).slice(1, 2).data<float>()[0] == 4);
  CHECK(x.slice(1, 3).shares_storage_with(x));
  CHECK(x.slice(3, 3).numel() == 0);
  CHECK(x.slice(3, 3).shape() == Shape{0, 2});
}

TEST_CASE("tensor: a slice or row out of range is refused") {
  const Tensor x = zeros({3, 2}, DType::kFloat32);
  CHECK_THROWS_AS(x.slice(2, 4), ShapeError);
  CHECK_THROWS_WITH(x.slice(2, 4), "slice: rows: expected a range within [0, 3), found [2, 4)");
  CHECK_THROWS_AS(x.slice(-1, 2), ShapeError);
  CHECK_THROWS_AS(x.slice(2, 1), ShapeError);
  CHECK_THROWS_AS(x.select(3), ShapeError);
  CHECK_THROWS_WITH(zeros({}, DType::kFloat32).slice(0, 1),
                    "slice: rank: expected 1 or more, found a scalar");
}

TEST_CASE("tensor: released memory is filled anew when an element is read, for all handles") {
  const auto bytes = [] {
    return CpuAllocator::instance().stats().of(MemoryPurpose::kActivation).current_bytes;
  };
  const std::int64_t before = bytes();
  const Tensor x = full({1 << 16, 2}, 3, DType::kFloat32), row = x.select(5);
  const std::int64_t with_x = bytes();
  int calls = 0;
  const auto remake = [&calls] {
    ++calls;
    return full({1 << 16, 2}, 3, DType::kFloat32);
  };
  x.release_until_read(remake);
  CHECK(bytes() == before);
  CHECK(x.reshape({1 << 17}).numel() == 1 << 17);  // looks at no element
  CHECK(calls == 0);
  CHECK(row.data<float>()[1] == 3);
  CHECK(x.data<float>()[0] == 3);
  CHECK(calls == 1);
  CHECK(bytes() == with_x);
  CHECK_THROWS_AS(row.release_until_read(remake), InternalError);
  x.release_until_read(remake);
  CHECK_THROWS_AS(x.release_until_read(remake), InternalError);
  const Tensor other = zeros({4}, DType::kFloat32);
  other.release_until_read([] { return zeros({3}, DType::kFloat32); });
  CHECK_THROWS_AS(other.raw(), InternalError);
}

TEST_CASE("tensor: rows that lie one behind the other are joined, in a view") {
  const Tensor x = tensor_of<float>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor a = x.slice(0, 1), b = x.slice(1, 3), c = x.slice(3, 4);
  CHECK(a.is_followed_by(b));
  CHECK_FALSE(a.is_followed_by(c));
  CHECK_FALSE(b.is_followed_by(a));
  CHECK(joined_rows(std::array{a, b, c}).is_same(x));
  CHECK(joined_rows(std::array{b, c}).is_same(x.slice(1, 4)));
  CHECK(joined_rows(std::array{b}).is_same(b));
  CHECK_FALSE(joined_rows(std::array{a, c}).defined());
  CHECK_FALSE(joined_rows(std::array{a, b.clone()}).defined());
  CHECK_FALSE(joined_rows(std::array{a, b.reshape({1, 4})}).defined());
  CHECK_FALSE(joined_rows({}).defined());
  CHECK_FALSE(x.is_same(x.reshape({2, 4})));
  CHECK_FALSE(a.is_same(x.slice(1, 2)));
}

TEST_CASE("tensor: an empty tensor may be sliced whatever its other extents are") {
  constexpr std::int64_t kBig = std::int64_t{1} << 40;
  const Tensor x = empty({0, kBig, kBig}, DType::kFloat32);
  CHECK(x.numel() == 0);
  CHECK(x.slice(0, 0).shape() == Shape{0, kBig, kBig});
}

TEST_CASE("tensor: reshape is a view, and another element count is refused") {
  const Tensor x = tensor_of<std::int32_t>({2, 3}, {0, 1, 2, 3, 4, 5});
  const Tensor y = x.reshape({3, 2});
  CHECK(y.shares_storage_with(x));
  y.fill(9);
  CHECK(x.data<std::int32_t>()[5] == 9);
  CHECK(full({1}, 4.0, DType::kFloat32).reshape({}).rank() == 0);
  CHECK_THROWS_AS(x.reshape({4, 2}), ShapeError);
  CHECK_THROWS_WITH(x.reshape({4, 2}), "reshape: [4, 2]: expected 6 elements, as in [2, 3], found 8");
}

TEST_CASE("tensor: elements of another type than asked for are refused") {
  const Tensor x = zeros({2}, DType::kInt64);
  CHECK_NOTHROW(x.data<std::int64_t>());
  CHECK_THROWS_AS(x.data<float>(), DTypeError);
  CHECK_THROWS_WITH(x.span<float>(), "tensor [2]: dtype: expected float32, found int64");
  CHECK_THROWS_AS(Tensor().data<float>(), InternalError);
}

TEST_CASE("tensor: item reads a single element of any dtype") {
  for (DType dtype : kAllDTypes) {
    CHECK(full({1, 1}, 3.0, dtype).item() == 3.0);
    CHECK(full({}, 3.0, dtype).item() == 3.0);
  }
  CHECK_THROWS_WITH(zeros({2, 3}, DType::kFloat32).item(), "item: elements: expected 1, found [2, 3]");
  CHECK_THROWS_AS(zeros({0}, DType::kFloat32).item(), ShapeError);
}

TEST_CASE("tensor: conversion between any two dtypes keeps small integers") {
  for (DType from : kAllDTypes) {
    const Tensor x = tensor_of<std::uint8_t>({3}, {0, 7, 200}).to(from);
    for (DType to : kAllDTypes) {
      const Tensor y = x.to(to);
      REQUIRE(y.dtype() == to);
      CHECK(y.shares_storage_with(x) == (from == to));
      CHECK(y.select(0).item() == 0);
      CHECK(y.select(1).item() == 7);
      CHECK(y.select(2).item() == 200);
    }
  }
}

TEST_CASE("tensor: clone has storage of its own, copy_from overwrites in place") {
  const Tensor x = tensor_of<float>({2}, {1, 2});
  const Tensor copy = x.clone();
  CHECK_FALSE(copy.shares_storage_with(x));
  copy.fill(5);
  CHECK(x.data<float>()[0] == 1);
  copy.copy_from(tensor_of<double>({2}, {0.5, -0.25}));
  CHECK(copy.data<float>()[0] == 0.5F);
  CHECK(copy.data<float>()[1] == -0.25F);
  CHECK_THROWS_WITH(copy.copy_from(x.reshape({1, 2})), "copy_from: source: expected [2], found [1, 2]");
}

TEST_CASE("tensor: loops over many elements reach every one of them") {
  constexpr std::int64_t kCount = (1 << 17) + 3;  // several chunks, the last one short
  std::vector<float> values(kCount);
  std::iota(values.begin(), values.end(), 0.0F);
  const Tensor x = tensor_of<float>({kCount}, values);
  const Tensor wide = x.to(DType::kFloat64);
  const Tensor sum = x.clone();
  sum.add(wide);
  sum.scale(0.5);
  CHECK(std::ranges::equal(sum.span<float>(), values));
  sum.fill(2.0);
  CHECK(std::ranges::count(sum.span<float>(), 2.0F) == kCount);
}

TEST_CASE("tensor: add and scale work in float32 on bfloat16") {
  // 256 + 1 is a tie in bfloat16: exact in float32, then rounded once to even.
  const Tensor x = full({3}, 256.0, DType::kBFloat16);
  x.add(full({3}, 1.5, DType::kFloat32));
  CHECK(x.select(0).item() == 258.0);
  x.scale(0.5);
  CHECK(x.select(2).item() == 129.0);
  CHECK_THROWS_AS(x.add(zeros({3}, DType::kInt32)), DTypeError);
  CHECK_THROWS_AS(zeros({3}, DType::kInt32).scale(2), DTypeError);
  CHECK_THROWS_AS(x.add(zeros({4}, DType::kFloat32)), ShapeError);
}

TEST_CASE("tensor: conversions and sums have the same bits under each instruction set", "[every_isa]") {
  constexpr std::int64_t kCount = 1000 + 7;  // whole vectors of any instruction set, and a rest
  std::vector<float> values(kCount);
  for (std::int64_t i = 0; i < kCount; ++i)
    values[static_cast<std::size_t>(i)] = std::ldexp(1.0F + 0x1p-9F * static_cast<float>(i), i % 250 - 140);
  values[3] = static_cast<float>(kNan);
  values[500] = -std::numeric_limits<float>::infinity();
  const Tensor wide = tensor_of<float>({kCount}, values), narrow = wide.to(DType::kBFloat16);
  for (std::int64_t i = 0; i < kCount; ++i) {
    const auto rounded = static_cast<bfloat16>(values[static_cast<std::size_t>(i)]);
    if (narrow.data<bfloat16>()[i].bits != rounded.bits) FAIL("element " << i);
  }
  const auto results = [&](CpuIsa isa) {
    const CpuIsaScope scope(isa);
    const Tensor sum = narrow.clone(), wide_sum = wide.clone();
    sum.add(wide);
    wide_sum.add(narrow);
    return std::array{wide.to(DType::kBFloat16), narrow.to(DType::kFloat32), sum, wide_sum};
  };
  const auto expected = results(cpu_isa());
  for (const CpuIsa isa : test::every_isa()) {
    const auto found = results(isa);
    INFO(cpu_isa_name(isa));
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(std::memcmp(found[i].raw(), expected[i].raw(), found[i].bytes()) == 0);
  }
}

TEST_CASE("tensor: all_finite finds a single NaN or infinity anywhere") {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    const Tensor x = zeros({100000}, dtype);
    CHECK(x.all_finite());
    for (std::int64_t at : {std::int64_t{0}, std::int64_t{40000}, std::int64_t{99999}}) {
      for (double bad : {kNan, std::numeric_limits<double>::infinity()}) {
        x.select(at).fill(bad);
        CHECK_FALSE(x.all_finite());
      }
      x.select(at).fill(1);
    }
  }
  CHECK(zeros({0}, DType::kFloat32).all_finite());
  CHECK_THROWS_WITH(zeros({1}, DType::kInt64).all_finite(),
                    Catch::Contains("all_finite: dtype: expected float32"));
}

TEST_CASE("tensor: a view outside its storage is refused") {
  auto storage = Storage::allocate(16, kCpu, MemoryPurpose::kData);
  CHECK_NOTHROW(Tensor(storage, 0, {4}, DType::kFloat32));
  CHECK_NOTHROW(Tensor(storage, 16, {0}, DType::kFloat32));
  CHECK_THROWS_AS(Tensor(storage, 0, {5}, DType::kFloat32), ShapeError);
  CHECK_THROWS_AS(Tensor(storage, 4, {4}, DType::kFloat32), ShapeError);
  CHECK_THROWS_AS(Tensor(storage, 17, {0}, DType::kFloat32), ShapeError);
  CHECK_THROWS_AS(Tensor(storage, 0, {std::int64_t{1} << 61}, DType::kFloat64),
                  ShapeError);  // bytes would wrap
  CHECK_THROWS_AS(Tensor(nullptr, 0, {1}, DType::kFloat32), InternalError);
}

TEST_CASE("tensor: a view that is not aligned to its elements is refused") {
  auto storage = Storage::allocate(16, kCpu, MemoryPurpose::kData);
  CHECK_NOTHROW(Tensor(storage, 2, {1}, DType::kBFloat16));
  CHECK_THROWS_AS(Tensor(storage, 2, {1}, DType::kFloat32), InternalError);
  CHECK_THROWS_WITH(Tensor(storage, 4, {1}, DType::kFloat64), Catch::Contains("aligned"));
}

TEST_CASE("tensor: borrowed memory keeps its owner and is not the tensor's to write") {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    const Tensor x(Storage::borrow(owner->data(), 12, owner), 0, {3}, DType::kFloat32);
    owner.reset();
    CHECK_FALSE(watch.expired());
    CHECK(x.data<float>()[2] == 3);
    CHECK_FALSE(x.is_unique());
  }
  CHECK(watch.expired());
  CHECK_THROWS_AS(Storage::borrow(nullptr, 0, nullptr), InternalError);
}

TEST_CASE("tensor: is_unique tells whether anybody else sees a write") {
  const Tensor x = zeros({2}, DType::kFloat32);
  CHECK(x.is_unique());
  {
    const Tensor view = x.slice(0, 1);
    CHECK_FALSE(x.is_unique());
    CHECK_FALSE(view.is_unique());
  }
  CHECK(x.is_unique());
}

TEST_CASE("tensor: tensor_of wants as many values as the shape has") {
  CHECK_THROWS_WITH(tensor_of<float>({2, 2}, {1, 2, 3}), "tensor_of [2, 2]: values: expected 4, found 3");
  CHECK(tensor_of<std::int64_t>({0}, std::vector<std::int64_t>{}).numel() == 0);
}

TEST_CASE("tensor: descriptions are those of messages") {
  CHECK(describe(zeros({8, 256}, DType::kBFloat16)) == "[8, 256] bfloat16");
  CHECK(describe(Tensor()) == "an undefined tensor");
  CHECK_FALSE(Tensor().defined());
}
