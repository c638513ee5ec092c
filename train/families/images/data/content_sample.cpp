#include "train/families/images/data/content_sample.h"

#include <algorithm>
#include <array>
#include <span>
#include <system_error>

#include "core/error.h"
#include "core/parallel.h"
#include "core/random.h"
#include "train/trainer/task/data/index_permutation.h"

namespace moh {

namespace {

constexpr std::uint64_t kEnd = 4096;  // bytes of each end
/// The drawn pictures are the same in every run.
constexpr RandomKey kDraw{0x73616d706c65, 0};

}  // namespace

void ContentSample::add(const InputFile& file, std::uint64_t begin, std::uint64_t size) {
  std::array<std::byte, 2 * kEnd> buffer{};
  const std::uint64_t first = std::min(size, kEnd), last = std::min(size - first, kEnd);
  const std::span ends = std::span(buffer).first(first + last);
  file.read(begin, ends.first(first), "picture");
  file.read(begin + size - last, ends.last(last), "picture");
  add(std::vector<std::int64_t>{static_cast<std::int64_t>(size)});
  checksum_.update(ends);
}

void ContentSample::add(const std::filesystem::path& path) {
  try {
    const InputFile file(path, InputKind::kData);
    add(file, 0, file.size());
  } catch (const DataError&) {
    add(std::vector<std::int64_t>{-1});  // whoever loads it says what is wrong with it
  }
}

void ContentSample::add(const std::vector<std::int64_t>& numbers) {
  checksum_.update(std::as_bytes(std::span(numbers)));
}

std::vector<std::int64_t> sampled_indices(std::int64_t size, std::int64_t count) {
  std::vector<std::int64_t> indices;
  if (size < 1) return indices;
  const IndexPermutation order(size, kDraw);
  for (std::int64_t i = 0; i < std::min(size, count); ++i) indices.push_back(order(i));
  return indices;
}

std::vector<std::int64_t> sizes_of_files(std::int64_t count,
                                         FunctionRef<std::filesystem::path(std::int64_t)> path) {
  constexpr std::int64_t kGrain = 64;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count));
  parallel_for(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::error_code error;
      const std::uintmax_t size = std::filesystem::file_size(path(i), error);
      sizes[static_cast<std::size_t>(i)] = error ? -1 : static_cast<std::int64_t>(size);
    }
  });
  return sizes;
}

}  // namespace moh
