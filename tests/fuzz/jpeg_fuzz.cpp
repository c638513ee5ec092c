#include "tests/fuzz/decode_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return moh::test::decode_bytes(data, size);
}
