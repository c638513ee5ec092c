#include "train/apps/serve/api_key.h"

#include <catch2/catch.hpp>

using namespace moh;

TEST_CASE("serve: an API key is compared as a whole") {
  CHECK(has_api_key("Bearer secret", "secret"));
  CHECK(has_api_key("bearer secret", "secret"));
  for (const char* const wrong : {"", "secret", "Bearer", "Bearer ", "Bearer secre", "Bearer secret ",
                                  "Bearer secretsecret", "Bearer Secret", "Basic secret", "Bearer  secret"})
    CHECK_FALSE(has_api_key(wrong, "secret"));
  CHECK_FALSE(has_api_key("Bearer ", ""));
}
