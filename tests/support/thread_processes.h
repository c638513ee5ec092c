#pragma once

#include <catch2/catch.hpp>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/thread_transport.h"
#include "train/comm/process_group.h"

namespace moh::test {

/// Runs `process` in as many threads as there are processes, and returns what each threw ("" for nothing).
inline std::vector<std::string> run_processes(int size, const std::function<void(Communicator&)>& process) {
  const auto post = std::make_shared<ThreadPost>();
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessGroup group([&, rank] { return std::make_unique<ThreadTransport>(post, rank, size); });
      group.set_deadline(60);
      try {
        process(group);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline void require_success(int size, const std::function<void(Communicator&)>& process) {
  for (const std::string& error : run_processes(size, process)) REQUIRE(error == "");
}

}  // namespace moh::test
