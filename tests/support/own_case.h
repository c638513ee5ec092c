#pragma once

#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <memory>
#include <string>

namespace moh::test {

/// The output of another process of this test program that runs one, hidden, case of it; `environment` stands
/// in front of the command ("MOH_CPU_ISA=avx2").
inline std::string output_of_own_case(const std::string& name, const std::string& environment = "") {
  std::array<char, 4096> path{};
  REQUIRE(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  const std::string command = environment + " '" + path.data() + "' '" + name + "'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  REQUIRE(pipe != nullptr);
  std::string output;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) output += static_cast<char>(c);
  return output;
}

}  // namespace moh::test
