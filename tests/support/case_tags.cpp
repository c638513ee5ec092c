#define CATCH_CONFIG_EXTERNAL_INTERFACES  // the base of listeners
#include "tests/support/case_tags.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace moh::test {

namespace {

std::vector<std::string> tags_of_running_case;

class TagListener : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override { tags_of_running_case = info.tags; }
};
CATCH_REGISTER_LISTENER(TagListener)

}  // namespace

void require_tag(const std::string& tag) {
  if (std::ranges::find(tags_of_running_case, tag) != tags_of_running_case.end()) return;
  FAIL("expected the tag [" << tag << "] at this test case, found none: ctest would give it the label host");
}

}  // namespace moh::test
