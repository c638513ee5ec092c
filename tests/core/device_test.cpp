#include "core/device.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/storage.h"

using namespace moh;

TEST_CASE("device: names round-trip") {
  CHECK(device_name(kCpu) == "cpu");
  CHECK(device_name({Device::Type::kCuda, 1}) == "cuda:1");
  CHECK(parse_device("cpu") == kCpu);
}

TEST_CASE("device: an unknown name is a ValueError that says what is known") {
  for (const char* text :
       {"", "gpu", "CPU", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999", " cpu"}) {
    CHECK_THROWS_AS(parse_device(text), ValueError);
    CHECK_THROWS_WITH(parse_device(text),
                      "device: expected cpu, cuda or cuda:N, found \"" + std::string(text) + "\"");
  }
}

TEST_CASE("device: one that this build or machine does not have is refused, never replaced", "[toolkit]") {
  CHECK(parse_device("cuda:7").index == 7);
  CHECK_THROWS_AS(open_device({Device::Type::kCuda, 99}), DeviceError);
  CHECK_THROWS_WITH(open_device({Device::Type::kCuda, 99}), Catch::Contains("cuda:99"));
  CHECK_THROWS_AS(Storage::allocate(64, {Device::Type::kCuda, 0}, MemoryPurpose::kData), DeviceError);
  CHECK_NOTHROW(open_device(kCpu));
}
