#include "train/trainer/optim/parameter_shards.h"

#include <catch2/catch.hpp>

#include <numeric>

#include "core/error.h"
#include "tests/support/thread_processes.h"

using namespace moh;

namespace {

/// Items of sizes that no bucket and no number of processes divides.
const std::vector<BucketItem> all_items = {{7}, {1000}, {0}, {33, DType::kBFloat16}, {5, DType::kBFloat16},
                                           {64}};

/// Elements that say which item they are of, and which of its elements.
Tensor numbered(std::size_t item) {
  std::vector<float> elements(static_cast<std::size_t>(all_items[item].elements));
  std::iota(elements.begin(), elements.end(), static_cast<float>(item * 10000));
  return tensor_of<float>({all_items[item].elements}, elements);
}

}  // namespace

TEST_CASE("bucket layout: every item once, the last one first, no bucket of two types") {
  const std::size_t bytes = GENERATE(1, 100, 1 << 20);
  const std::int64_t parts = GENERATE(1, 3);
  std::vector<std::size_t> order;
  for (const Bucket& bucket : bucket_layout(all_items, bytes, parts)) {
    std::int64_t elements = 0;
    for (const std::size_t item : bucket.items) {
      order.push_back(item);
      elements += all_items[item].elements;
      CHECK(all_items[item].dtype == all_items[bucket.items.front()].dtype);
    }
    CHECK(bucket.elements >= elements);
    CHECK(bucket.elements % (parts == 1 ? 1 : 16 * parts) == 0);
    if (parts == 1) CHECK(bucket.elements == elements);
  }
  CHECK(order == std::vector<std::size_t>{5, 4, 3, 2, 1, 0});
}

TEST_CASE("bucket layout: items that follow each other stay in their order, in one bucket") {
  const std::vector<BucketItem> items = {
      {8}, {8}, {.elements = 8, .follows = true}, {.elements = 8, .follows = true}, {8}};
  std::vector<std::vector<std::size_t>> found;
  for (const Bucket& bucket : bucket_layout(items, /*bytes=*/1, /*parts=*/1)) found.push_back(bucket.items);
  CHECK(found == std::vector<std::vector<std::size_t>>{{4}, {1, 2, 3}, {0}});
}

TEST_CASE("bucket layout: whole items are in one part each, which are nearly alike") {
  constexpr std::int64_t kParts = 3;
  std::vector<BucketItem> items;
  for (int layer = 0; layer < 10; ++layer) {
    for (const std::int64_t elements : {16, 512, 512, 1024, 3000}) {
      const bool follows = elements == 512 && items.back().elements == 512;
      items.push_back({.elements = elements, .follows = follows, .whole = true});
    }
  }
  std::vector<int> found(items.size());
  const std::vector<Bucket> buckets = bucket_layout(items, /*bytes=*/1, kParts);
  CHECK(buckets.size() > 2);
  for (const Bucket& bucket : buckets) {
    const std::int64_t each = bucket.elements / kParts;
    CHECK(each % 16 == 0);
    std::int64_t elements = 0, end = 0;
    for (std::size_t k = 0; k < bucket.items.size(); ++k) {
      const BucketItem& item = items[bucket.items[k]];
      const std::int64_t begin = bucket.begins[k];
      CHECK(begin >= end);
      CHECK(begin / each == (begin + item.elements - 1) / each);
      if (item.follows) CHECK(begin == end);
      end = begin + item.elements;
      elements += item.elements;
      ++found[bucket.items[k]];
    }
    if (&bucket != &buckets.back()) CHECK(elements * 8 >= bucket.elements * 7);
  }
  CHECK(std::ranges::count(found, 1) == std::ssize(found));
}

TEST_CASE("parameter shards: whole items are gathered from the processes that have them") {
  std::vector<BucketItem> items = all_items;
  for (BucketItem& item : items) item.whole = true;
  const std::size_t bytes = GENERATE(1, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    const ParameterShards shards(items, bytes, comm);
    std::vector<Tensor> own, whole;
    for (std::size_t i = 0; i < items.size(); ++i) {
      own.push_back(shards.own_part(i, numbered(i)));
      whole.push_back(zeros({items[i].elements}, DType::kFloat32));
      if (own.back().numel() != 0 && own.back().numel() != items[i].elements) throw ValueError("a part");
      if (comm.max(own.back().numel()) != items[i].elements) throw ValueError("nobody has it");
    }
    shards.gather(own, whole);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!std::ranges::equal(whole[i].span<float>(), numbered(i).span<float>()))
        throw ValueError("item " + std::to_string(i));
    }
  });
}

TEST_CASE("parameter shards: the parts of all processes are the whole, in order") {
  const std::size_t bytes = GENERATE(1, 200, 1 << 20);
  test::require_success(3, [&](Communicator& comm) {
    const ParameterShards shards(all_items, bytes, comm);
    std::int64_t count = 0;
    std::vector<Tensor> own, whole;
    for (std::size_t i = 0; i < all_items.size(); ++i) {
      own.push_back(shards.own_part(i, numbered(i)));
      whole.push_back(zeros({all_items[i].elements}, DType::kFloat32));
      count += own.back().numel();
      const Tensor ends = zeros({3, 2}, DType::kInt64);
      const ParameterShards::Range range = shards.own(i);
      comm.all_gather(tensor_of<std::int64_t>({2}, {range.begin, range.end}), ends);
      const auto each = ends.span<std::int64_t>();
      if (each[0] != 0 || each[5] != all_items[i].elements || each[1] != each[2] || each[3] != each[4])
        throw ValueError("the parts of item " + std::to_string(i));
    }
    // No process has more than a third of every bucket and its padding.
    if (count > 1109 / 3 + 1 + 16 * static_cast<std::int64_t>(shards.buckets().size()))
      throw ValueError(std::to_string(count) + " elements");
    shards.gather(own, whole);
    for (std::size_t i = 0; i < all_items.size(); ++i) {
      if (!std::ranges::equal(whole[i].span<float>(), numbered(i).span<float>()))
        throw ValueError("item " + std::to_string(i));
    }
  });
}

TEST_CASE("parameter shards: a tensor that fills its bucket is gathered where it is") {
  const std::vector<BucketItem> items = {{96}, {7}};
  test::require_success(3, [&](Communicator& comm) {
    const ParameterShards shards(items, /*bucket_bytes=*/1, comm);
    std::vector<Tensor> own, whole;
    for (std::size_t i = 0; i < items.size(); ++i) {
      whole.push_back(full({items[i].elements}, comm.rank(), DType::kFloat32));
      own.push_back(shards.own_part(i, whole.back()));
    }
    const auto finish = shards.start_gather(1, own, whole);  // of the first item
    finish();
    shards.gather(own, whole);
    for (const std::size_t i : {0, 1}) {
      for (std::int64_t element = 0; element < items[i].elements; ++element) {
        const std::int64_t part = i == 0 ? 32 : 16;
        const std::int64_t owner = element / part;
        if (whole[i].data<float>()[element] != static_cast<float>(owner))
          throw ValueError("element " + std::to_string(element) + " of item " + std::to_string(i));
      }
    }
  });
}
