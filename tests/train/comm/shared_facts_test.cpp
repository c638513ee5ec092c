#include "train/comm/shared_facts.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/thread_processes.h"

using namespace moh;
using test::run_processes;

namespace {

SharedFacts usual() {
  return {{FactKind::kProgram, "version", "1"},
          {FactKind::kSettings, "seed", "3"},
          {FactKind::kData, "data.train", "1 file, checksum 12"},
          {FactKind::kData, "data.validation", "1 file, checksum 56"},
          {FactKind::kNote, "C library", "2.36"}};
}

/// Errors of `size` processes, of which `change` changes the facts.
template <class ErrorType>
std::vector<std::string> errors_of(int size, const std::function<void(int rank, SharedFacts&)>& change) {
  return run_processes(size, [&](Communicator& processes) {
    SharedFacts facts = usual();
    change(processes.rank(), facts);
    CHECK_THROWS_AS(require_same_facts(facts, processes), ErrorType);
    processes.barrier();  // the comparison leaves all in step
    require_same_facts(facts, processes);
  });
}

}  // namespace

TEST_CASE("shared facts: equal ones are passed, also of a process alone") {
  test::require_success(3, [](Communicator& processes) {
    CHECK(require_same_facts(usual(), processes).empty());
    CHECK(require_same_facts({}, processes).empty());
  });
  CHECK(require_same_facts(usual(), one_process()).empty());
}

TEST_CASE("shared facts: all processes throw the same error, with both values and who has the other") {
  const auto errors = errors_of<DataError>(3, [](int rank, SharedFacts& facts) {
    if (rank == 2) facts[2].value = "1 file, checksum 34";
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error,
               Catch::StartsWith("comm: data.train: expected 1 file, checksum 12, as rank 0 has, found 1 "
                                 "file, checksum 34 in rank 2 (host ") &&
                   Catch::Contains("all processes have to read the same data"));
    CHECK_THAT(error, !Catch::Contains("data.validation"));
  }
}

TEST_CASE("shared facts: several differences, values and ranks are named together") {
  const auto errors = errors_of<DataError>(4, [](int rank, SharedFacts& facts) {
    facts[2].value = rank == 0 ? "a" : rank == 3 ? "c" : "b";
    if (rank == 1) facts[3].value = "d";
  });
  CHECK_THAT(errors[0], Catch::Contains("data.train: expected a, as rank 0 has, found b in rank 1 (") &&
                            Catch::Contains(", rank 2 (") && Catch::Contains("; c in rank 3 (") &&
                            Catch::Contains("\n  comm: data.validation: expected 1 file, checksum 56"));
}

TEST_CASE("shared facts: another program or configuration goes before what follows from it") {
  const auto change_all = [](std::size_t first) {
    return [first](int rank, SharedFacts& facts) {
      for (std::size_t i = first; rank == 1 && i < 4; ++i) facts[i].value = "other";
    };
  };
  for (const std::string& error : errors_of<ConfigError>(2, change_all(0)))
    CHECK_THAT(error, Catch::Contains("the same version of moh") && !Catch::Contains("seed"));
  for (const std::string& error : errors_of<ConfigError>(2, change_all(1)))
    CHECK_THAT(error, Catch::Contains("comm: seed: expected 3, as rank 0 has, found other") &&
                          !Catch::Contains("data.train"));
}

TEST_CASE("shared facts: one that a process does not have is a difference") {
  for (const std::string& error : errors_of<DataError>(2, [](int rank, SharedFacts&facts) {
         if (rank == 0) facts.erase(facts.begin() + 3);
       }))
    CHECK_THAT(error, Catch::Contains("data.validation: expected nothing, as rank 0 has, found 1 file"));
}

TEST_CASE("shared facts: other weights are an error of checkpoints") {
  for (const std::string& error : errors_of<CheckpointError>(2, [](int rank, SharedFacts&facts) {
         facts.push_back({FactKind::kCheckpoint, "init.from", std::to_string(rank)});
       }))
    CHECK_THAT(error, Catch::Contains("init.from: expected 0, as rank 0 has, found 1 in rank 1"));
}

TEST_CASE("shared facts: a difference that is only noted is returned") {
  test::require_success(2, [](Communicator& processes) {
    SharedFacts facts = usual();
    if (processes.rank() == 1) facts[4].value = "2.39";
    const std::vector<std::string> notes = require_same_facts(facts, processes);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0],
               Catch::StartsWith("comm: C library: expected 2.36, as rank 0 has, found 2.39 in rank 1"));
  });
}
