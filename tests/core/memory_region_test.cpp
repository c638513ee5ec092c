#include "core/memory_region.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <vector>

#include "core/random.h"
#include "tests/support/address_limit.h"
#include "tests/support/child_process.h"
#include "tests/support/failing_new.h"

using namespace moh;

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace

TEST_CASE("memory region: neighbours that come back serve a larger request") {
  MemoryRegion region;
  void* a = region.take(3 * kMiB);
  void* b = region.take(5 * kMiB);
  void* c = region.take(1 * kMiB);
  void* d = region.take(1 * kMiB);
  const std::int64_t growths = region.growths();
  // In every order: with the one before, with the one behind, and between the two.
  region.give_back(a, 3 * kMiB);
  region.give_back(c, 1 * kMiB);
  region.give_back(b, 5 * kMiB);
  void* all = region.take(9 * kMiB);
  CHECK(all == a);
  CHECK(region.growths() == growths);
  region.give_back(all, 9 * kMiB);
  region.give_back(d, 1 * kMiB);
}

TEST_CASE("memory region: the smallest stretch that is large enough is used") {
  MemoryRegion region;
  std::vector<void*> pieces;
  for (std::size_t size : {4, 1, 2, 1, 3, 1}) pieces.push_back(region.take(size * kMiB));
  region.give_back(pieces[0], 4 * kMiB);
  region.give_back(pieces[2], 2 * kMiB);
  region.give_back(pieces[4], 3 * kMiB);
  CHECK(region.take(2 * kMiB) == pieces[2]);
  CHECK(region.take(3 * kMiB) == pieces[4]);
  CHECK(region.take(3 * kMiB) == pieces[0]);
}

TEST_CASE("memory region: it grows by what the free end lacks") {
  MemoryRegion region;
  void* a = region.take(64 * kMiB);
  region.give_back(a, 64 * kMiB);
  CHECK(region.take(100 * kMiB) == a);
  CHECK(region.backed_bytes() == 100 * kMiB);
}

TEST_CASE("memory region: trim returns what is free, and nothing else") {
  MemoryRegion region;
  auto* kept = static_cast<char*>(region.take(2 * kMiB));
  void* dropped = region.take(6 * kMiB);
  std::memset(kept, 7, 2 * kMiB);
  region.give_back(dropped, 6 * kMiB);
  region.trim();
  CHECK(region.backed_bytes() == 2 * kMiB);
  CHECK(std::all_of(kept, kept + 2 * kMiB, [](char c) { return c == 7; }));
  auto* again = static_cast<char*>(region.take(6 * kMiB));
  REQUIRE(again == dropped);
  CHECK(again[kMiB] == 0);  // fresh pages
  again[kMiB] = 1;
}

TEST_CASE("memory region: more than there is gives null") {
  MemoryRegion region;
  CHECK(region.take(std::size_t{1} << 50) == nullptr);
  CHECK(region.backed_bytes() == 0);
}

TEST_CASE("memory region: pieces of random sizes and lives never overlap, and settle") {
  struct Piece {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  MemoryRegion region;
  std::vector<Piece> pieces;
  std::uint64_t draws = 0;
  const auto draw = [&](std::uint64_t below) { return random_below({1, 2}, draws++, below); };
  std::int64_t growths_half_way = 0;
  for (int i = 0; i < 4000; ++i) {
    if (i == 2000) growths_half_way = region.growths();
    if (pieces.size() < 20 && draw(2) == 0) {
      const std::size_t bytes = (1 + draw(64)) * region.page_bytes();
      const auto mark = static_cast<unsigned char>(draw(256));
      auto* data = static_cast<unsigned char*>(region.take(bytes));
      std::memset(data, mark, bytes);
      pieces.push_back({data, bytes, mark});
    } else if (!pieces.empty()) {
      const std::size_t pick = draw(pieces.size());
      const Piece piece = pieces[pick];
      REQUIRE(std::all_of(piece.data, piece.data + piece.bytes,
                          [&](unsigned char c) { return c == piece.mark; }));
      region.give_back(piece.data, piece.bytes);
      pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(pick));
    }
  }
  CHECK(region.growths() <= growths_half_way + 1);
}

TEST_CASE("memory region: under a limit on address space a part is left for stacks and libraries") {
  // At some limits all of it used to go, where the machine's memory divided by a power of two was just below.
  for (const std::size_t gigabytes : {1, 2, 3, 5, 6, 7}) {
    const ChildResult result = run_in_child([&] {
      std::size_t used_pages = 0;
      std::ifstream("/proc/self/statm") >> used_pages;
      const std::size_t left = gigabytes << 30;
      const rlim_t most = used_pages * 4096 + left;
      const rlimit limit{most, most};
      if (setrlimit(RLIMIT_AS, &limit) != 0) return std::string("no limit");
      MemoryRegion region;
      if (region.take(left / 3) == nullptr) return std::string("the region is too small");
      void* stack = mmap(nullptr, left / 5, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      return std::string(stack == MAP_FAILED ? "nothing is left" : "enough is left");
    });
    INFO(gigabytes << " GiB");
    CHECK(result.output == "enough is left");
  }
}

TEST_CASE("memory region: pieces come back although there is no memory to remember them") {
  MemoryRegion region;
  void* a = region.take(kMiB);
  void* b = region.take(kMiB);
  void* c = region.take(kMiB);
  {
    const FailingNew no_memory;
    region.give_back(b, kMiB);  // neighbours in use: needs an entry of its own
  }
  CHECK(region.take(kMiB) != b);  // lost, as nothing says that it is free
  region.give_back(a, kMiB);
  region.give_back(c, kMiB);
  CHECK(region.take(kMiB) == a);
}

TEST_CASE("memory region: under a limit on address space it takes no more than it needs, in one range") {
  for (const std::size_t megabytes : {100, 130, 160, 250}) {
    const ChildResult result = run_in_child([&] {
      test::limit_address_space(megabytes * kMiB);
      MemoryRegion region;
      void* const first = region.take(3 * kMiB);
      if (first == nullptr) return std::string("no piece");
      void* others = mmap(nullptr, (megabytes - 40) * kMiB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (others == MAP_FAILED) return std::string("nothing is left for others");
      munmap(others, (megabytes - 40) * kMiB);
      // The parts are one range, where a piece larger than any of them finds room.
      region.give_back(first, 3 * kMiB);
      void* const second = region.take(20 * kMiB);
      if (second != first) return std::string("two ranges");
      region.give_back(second, 20 * kMiB);
      return std::string(region.take((megabytes - 30) * kMiB) == first ? "as it should be" : "no growth");
    });
    INFO(megabytes << " MiB");
    CHECK(result.output == "as it should be");
  }
}
