#include "train/comm/launcher.h"

#include <catch2/catch.hpp>
#include <map>

#include "core/error.h"

using namespace moh;

namespace {

Launch launch_of(const std::map<std::string, std::string>& variables) {
  return detect_launch([&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
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
