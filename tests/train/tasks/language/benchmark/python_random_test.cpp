#include "train/tasks/language/benchmark/python_random.h"

#include <catch2/catch.hpp>

#include "core/error.h"

using namespace moh;

namespace {

using Drawn = std::vector<std::size_t>;

}  // namespace

// Expected: random.Random(seed) of Python 3.11, [r.getrandbits(32) for _ in range(3)] and then, in this
// order, r.sample(range(size), count).
TEST_CASE("benchmark: examples are drawn as Python draws them") {
  PythonRandom random(1234);
  CHECK(random.next() == 4150886329U);
  CHECK(random.next() == 3342196574U);
  CHECK(random.next() == 1892932127U);
  CHECK(random.sample(100, 5) == Drawn{14, 0, 11, 74, 4});
  CHECK(random.sample(20, 8) == Drawn{2, 3, 11, 7, 0, 15, 12, 14});
  CHECK(random.sample(7473, 8) == Drawn{2835, 5311, 5105, 3966, 5044, 3797, 1216, 747});
  CHECK(random.sample(90, 32) == Drawn{23, 14, 1,  64, 62, 31, 8,  69, 59, 83, 76, 11, 65, 74, 5,  34,
                                       71, 80, 38, 61, 45, 79, 84, 25, 58, 2,  9,  0,  21, 63, 82, 30});
  CHECK(random.sample(280, 32) == Drawn{193, 85,  27, 39,  254, 83,  38,  110, 73,  13,  177,
                                        56,  271, 72, 156, 232, 20,  213, 141, 90,  139, 79,
                                        153, 237, 21, 197, 178, 253, 174, 239, 243, 23});
  CHECK(random.sample(50000, 3) == Drawn{30856, 38988, 11139});
  CHECK(random.sample(1, 1) == Drawn{0});
  CHECK(random.sample(5, 0).empty());
}

TEST_CASE("benchmark: seeds of 0 and beyond 32 bits are Python's, too") {
  PythonRandom zero(0), large((std::uint64_t{1} << 40) + 7);
  CHECK(zero.next() == 3626764237U);
  CHECK(large.next() == 2635837658U);
  CHECK(large.next() == 3209733218U);
}

TEST_CASE("benchmark: no more examples than there are") {
  CHECK_THROWS_AS(PythonRandom(1).sample(3, 4), ValueError);
}
