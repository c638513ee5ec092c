#pragma once

#include <catch2/catch.hpp>
#include <string>
#include <utility>

namespace moh {

/// The message of the `E` that `action` throws; fails the test when it throws nothing. Other types pass
/// through.
template <class E, class Fn>
std::string message_of(Fn&& action) {
  try {
    std::forward<Fn>(action)();
  } catch (const E& error) {
    return error.what();
  }
  FAIL("nothing was thrown");
  return "";
}

}  // namespace moh
