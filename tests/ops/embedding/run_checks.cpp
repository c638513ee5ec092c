#include "tests/ops/embedding/run_checks.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "core/random.h"
#include "ops/embedding/embedding.h"

namespace moh::test {

namespace {

struct Runs {
  std::string name;
  std::int64_t rows = 0, width = 0;  ///< of the table
  std::vector<std::int64_t> ids;     ///< as their runs stand when they are sorted
};

std::vector<std::int64_t> repeated(std::int64_t count, std::int64_t id) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(count), id);
}

/// Id 1 lengths[0] times, id 3 lengths[1] times, ...: every other row has no id.
std::vector<std::int64_t> runs_of(const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const std::vector<std::int64_t> run = repeated(lengths[i], static_cast<std::int64_t>(2 * i + 1));
    ids.insert(ids.end(), run.begin(), run.end());
  }
  return ids;
}

/// `count` ids from 0 on, `step` apart.
std::vector<std::int64_t> different(std::int64_t count, std::int64_t step = 1) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * step);
  return ids;
}

/// As a text has them: id i twice as often as id i + 1.
std::vector<std::int64_t> halving(std::int64_t count) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t left = count; left > 0; left /= 2) lengths.push_back((left + 1) / 2);
  return runs_of(lengths);
}

std::vector<Runs> all_runs() {
  std::vector<Runs> all;
  // Chunks of 16 on a GPU up to 4095 ids, of 32 up to 16383.
  for (const std::int64_t count : {1, 15, 16, 17, 31, 33, 300, 4095, 4096, 4097}) {
    all.push_back({"one id " + std::to_string(count) + " times", 3, 4, repeated(count, 2)});
    if (count <= 300) all.push_back({std::to_string(count) + " different", count, 5, different(count)});
  }
  all.push_back({"ends at chunks and beside them", 29, 8,
                 runs_of({16, 1, 15, 15, 1, 17, 15, 32, 33, 31, 48, 16, 2, 300})});
  all.push_back({"a table of one row", 1, 1, repeated(50, 0)});
  all.push_back({"rows wider than a block", 7, 2056, runs_of({20, 1, 19})});
  all.push_back({"odd rows wider than a block", 7, 2051, runs_of({17, 16, 1})});
  // 171 ids are a chunk of the CPU at this width.
  all.push_back({"chunks of the CPU", 13, 96, runs_of({170, 1, 171, 172, 513, 1000})});
  // Tiles of the sort have 1024 ids, its scan takes 8 tiles at once, and each pass has 8 bits.
  all.push_back({"a tile", 256, 1, different(256)});
  for (const std::int64_t count : {1023, 1024, 1025, 8192, 8193})
    all.push_back({"tiles, " + std::to_string(count) + " ids", 40, 1, halving(count)});
  all.push_back({"two digits", 257, 2, different(257)});
  all.push_back({"two digits, far apart", 65536, 1, different(205, 321)});
  all.push_back({"three digits", 70001, 1, different(71, 1000)});
  return all;
}

/// The ids in an order in which equal ones are apart, the same each time.
Tensor mixed(const std::vector<std::int64_t>& sorted) {
  std::vector<std::int64_t> ids = sorted;
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random_below({9, 1}, i, i)]);
  return tensor_of<std::int64_t>({static_cast<std::int64_t>(ids.size())}, ids);
}

/// Integers from -2 to 3.
Tensor small_integers(const Shape& shape) {
  Tensor tensor = empty(shape, DType::kFloat64);
  for (std::int64_t i = 0; i < tensor.numel(); ++i)
    tensor.data<double>()[i] =
        static_cast<double>(random_below({9, 2}, static_cast<std::uint64_t>(i), 6)) - 2;
  return tensor;
}

Tensor expected_gradient(const Tensor& ids, const Tensor& dy, const Runs& runs) {
  Tensor sums = zeros({runs.rows, runs.width}, DType::kFloat64);
  for (std::int64_t n = 0; n < ids.numel(); ++n) {
    for (std::int64_t j = 0; j < runs.width; ++j)
      sums.data<double>()[ids.data<std::int64_t>()[n] * runs.width + j] +=
          dy.data<double>()[n * runs.width + j];
  }
  return sums;
}

}  // namespace

void check_embedding_runs(Device device, DType dtype) {
  for (const Runs& runs : all_runs()) {
    INFO(runs.name << ", " << dtype_name(dtype));
    const Tensor ids = mixed(runs.ids), dy = small_integers({ids.numel(), runs.width});
    const Variable table(zeros({runs.rows, runs.width}, dtype, device), true);
    embedding(table, ids.to(device)).backward(dy.to(dtype).to(device));
    const Tensor found = table.grad().to(kCpu).to(DType::kFloat64);
    const Tensor expected = expected_gradient(ids, dy, runs);  // exact in float32, to which it is summed
    CHECK(std::memcmp(found.raw(), expected.raw(), found.bytes()) == 0);
  }
}

}  // namespace moh::test
