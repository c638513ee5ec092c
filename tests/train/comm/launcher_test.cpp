#include "train/comm/launcher.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/error.h"

using namespace moh;

namespace {

using Variables = std::map<std::string, std::string>;

Environment environment_of(const Variables& variables) {
  return [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  };
}

Launch launch_of(const Variables& variables) {
  return detect_launch(environment_of(variables));
}

}  // namespace

TEST_CASE("launcher: what each sets is recognised") {
  CHECK(launch_of({}).size == 1);
  CHECK(launch_of({}).launcher.empty());
  const Launch mpirun = launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "2"}});
  CHECK(mpirun.launcher == "mpirun");
  CHECK(mpirun.size == 4);
  CHECK(mpirun.by_pmix);
  const Launch srun = launch_of({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "8"}});
  CHECK(srun.launcher == "srun");
  CHECK(srun.size == 8);
  CHECK_FALSE(srun.by_pmix);
  const Launch torchrun = launch_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "localhost"}});
  CHECK(torchrun.launcher == "torchrun");
  CHECK(torchrun.size == 2);
  CHECK(launch_of({{"PMI_SIZE", "3"}}).launcher == "mpiexec");
}

TEST_CASE("launcher: where torchrun's processes meet") {
  Variables variables = {
      {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
  const TcpMeeting plain = meeting_of_torchrun(environment_of(variables));
  CHECK(plain.host == "node7");
  CHECK(plain.port == 29500);
  CHECK(plain.rank == 1);
  CHECK(plain.size == 3);
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";  // torchrun has that port itself
  CHECK(meeting_of_torchrun(environment_of(variables)).port == 29501);
  for (const auto& [name, text] : Variables{{"RANK", "3"},
                                            {"WORLD_SIZE", "0"},
                                            {"MASTER_ADDR", ""},
                                            {"MASTER_PORT", "port"},
                                            {"MASTER_PORT", "65535"}}) {
    INFO(name << "=" << text);
    Variables wrong = variables;
    wrong[name] = text;
    CHECK_THROWS_AS(meeting_of_torchrun(environment_of(wrong)), ConfigError);
  }
}

TEST_CASE("launcher: a batch script's own process is alone, and mpirun in it is not srun") {
  CHECK(launch_of({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}).size == 1);
  const Launch both = launch_of({{"OMPI_COMM_WORLD_SIZE", "4"}, {"SLURM_STEP_ID", "0"}});
  CHECK(both.launcher == "mpirun");
}

TEST_CASE("launcher: a size that is no number is refused") {
  for (const char* text : {"two", "0", "-1", "2x"}) {
    CHECK_THROWS_WITH(launch_of({{"OMPI_COMM_WORLD_SIZE", text}}),
                      Catch::Contains("OMPI_COMM_WORLD_SIZE: expected a number of processes"));
  }
}

TEST_CASE("launcher: the number of a process on its machine") {
  const auto rank_of = [](const Variables& variables) {
    return local_rank_of_launcher(environment_of(variables));
  };
  CHECK(!rank_of({}));
  CHECK(!rank_of({{"RANK", "3"}, {"SLURM_PROCID", "3"}}));  // of the run, not of the machine
  CHECK(rank_of({{"LOCAL_RANK", "2"}}) == 2);
  CHECK(rank_of({{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_RANK", "5"}}) == 1);
  CHECK(rank_of({{"SLURM_LOCALID", "0"}}) == 0);
  CHECK_THROWS_WITH(rank_of({{"LOCAL_RANK", "first"}}),
                    Catch::Contains("LOCAL_RANK: expected the number of a process on its machine"));
}

namespace {

/// Variables that are set, some of them to nothing.
void refuse_empty(const Variables& variables) {
  refuse_empty_variables(environment_of(variables), [&](const char* name) {
    const auto found = variables.find(name);
    return found != variables.end() && found->second.empty();
  });
}

}  // namespace

TEST_CASE("launcher: a variable that is set to nothing beside others is refused by name") {
  const Variables torchrun = {{"RANK", "1"},
                              {"WORLD_SIZE", "3"},
                              {"MASTER_ADDR", "node7"},
                              {"MASTER_PORT", "29500"},
                              {"LOCAL_RANK", "0"}};
  const Variables mpirun = {{"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "1"}};
  const Variables srun = {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_LOCALID", "1"}};
  for (const Variables& given : {torchrun, mpirun, srun}) {
    CHECK_NOTHROW(refuse_empty(given));
    for (const auto& [name, value] : given) {
      Variables wrong = given;
      wrong[name] = "";
      CHECK_THROWS_WITH(refuse_empty(wrong), Catch::Contains("environment: " + name + ": expected a value"));
    }
  }
  CHECK_THROWS_WITH(refuse_empty({{"RANK", ""}, {"WORLD_SIZE", ""}, {"MASTER_ADDR", ""}}),
                    Catch::Contains("environment: RANK, WORLD_SIZE, MASTER_ADDR: expected"));
  CHECK_NOTHROW(refuse_empty({}));
  CHECK_NOTHROW(refuse_empty({{"RANK", ""}, {"SLURM_JOB_ID", "7"}}));  // alone it says nothing
}

TEST_CASE("launcher: a variable that is missing beside others is refused by name") {
  CHECK_THROWS_WITH(launch_of({{"RANK", "0"}, {"MASTER_ADDR", "node7"}}),
                    Catch::Contains("WORLD_SIZE: expected"));
  for (const char* name : {"RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    Variables variables = {
        {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}};
    variables.erase(name);
    INFO(name);
    CHECK(launch_of(variables).launcher == "torchrun");
    CHECK_THROWS_WITH(
        meeting_of_torchrun(environment_of(variables)),
        Catch::Contains(std::string(name) + ": expected") && Catch::Contains("set it, or unset WORLD_SIZE"));
  }
  // Variables of a batch script, for programs that it starts.
  CHECK(launch_of({{"MASTER_ADDR", "node7"}, {"MASTER_PORT", "29500"}}).size == 1);
  CHECK(launch_of({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).size == 1);
}
