#include "train/apps/doctor/findings.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "autograd/node.h"
#include "autograd/variable.h"
#include "core/cpu_isa.h"
#include "core/cuda/backend.h"
#include "core/cuda/gpus.h"
#include "core/cuda/nccl_group.h"
#include "core/error.h"
#include "core/processor_isa.h"
#include "core/processors.h"
#include "ops/attention/backend.h"
#include "ops/linalg/linear.h"
#include "train/base/log/format.h"
#include "train/comm/mpi_transport.h"

namespace moh {

namespace {

namespace fs = std::filesystem;

/// The text behind `key` and a colon in the first line of a file that begins so; empty: none does.
std::string value_in(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const std::size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

/// A number of kB of /proc/meminfo, in bytes.
std::optional<std::int64_t> bytes_in_meminfo(std::string_view key) {
  std::istringstream text(value_in("/proc/meminfo", key));
  std::int64_t kib = 0;
  return text >> kib ? std::optional(kib * 1024) : std::nullopt;
}

/// The limit of this process's group in a container; nothing: none.
std::optional<std::int64_t> memory_limit() {
  std::ifstream file("/sys/fs/cgroup/memory.max");
  std::int64_t bytes = 0;
  return file >> bytes ? std::optional(bytes) : std::nullopt;
}

Finding processor() {
  const int count = usable_processors();
  const std::string model = value_in("/proc/cpuinfo", "model name");
  return {"processor",
          (model.empty() ? "" : model + ", ") + std::to_string(count) + (count == 1 ? " thread" : " threads"),
          ""};
}

Finding kernels() {
  const CpuIsa isa = cpu_isa(), best = best_isa_of_processor();
  Finding finding{"kernels", std::string(cpu_isa_name(isa)), ""};
  if (!cpu_has_isa(best) && processor_gains(best)) {
    finding.missing = "this processor has " + std::string(cpu_isa_name(best)) +
                      ", and this build no kernels for it: build here, or with -DMOH_CPU_KERNELS=all";
  } else if (base_isa(isa) == isa) {
    finding.missing =
        "no instructions that multiply bfloat16: precision: bfloat16 saves memory here, and no time";
  }
  return finding;
}

Finding memory() {
  const std::optional<std::int64_t> total = bytes_in_meminfo("MemTotal"),
                                    available = bytes_in_meminfo("MemAvailable"), limit = memory_limit();
  if (!total || !available) return {"memory", "", "/proc/meminfo does not say how much there is"};
  std::string found = format_bytes(*total) + ", " + format_bytes(*available) + " of it available";
  if (limit && *limit < *total) found += "; this group of processes may use " + format_bytes(*limit);
  return {"memory", found, ""};
}

Finding disk(const fs::path& folder) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error) return {"disk", "", folder.string() + ": " + error.message()};
  Finding finding{"disk",
                  format_bytes(static_cast<std::int64_t>(space.available)) + " free in " +
                      fs::weakly_canonical(folder, error).string(),
                  ""};
  if (::access(folder.c_str(), W_OK) != 0)
    finding.missing = "this user may not write there: output.dir has to be elsewhere";
  return finding;
}

/// The result of `look`; what it throws is missing, with `cost`.
template <class Look>
Finding tried(const char* name, const std::string& cost, Look look) {
  try {
    return {name, look(), ""};
  } catch (const Error& error) {
    return {name, "", error.what() + (cost.empty() ? cost : "; " + cost)};
  }
}

std::string open_first_gpu() {
  cuda::open_device(0);
  const int count = cuda::count_gpus();
  return cuda::describe_device() + (count > 1 ? ", the first of " + std::to_string(count) : "");
}

/// Multiplies matrices of ones, for which cuBLAS is loaded.
std::string multiply_on_gpu() {
  constexpr std::int64_t kWidth = 64;
  const NoGrad no_grad;
  const Variable ones(full({kWidth, kWidth}, 1.0, DType::kFloat32, {Device::Type::kCuda, 0}));
  const Tensor product = linear(ones, ones).value().to(kCpu);
  for (const float element : product.span<float>()) {
    if (element != static_cast<float>(kWidth))
      throw DeviceError(
          error_message("cuBLAS", "a product of ones", std::to_string(kWidth), std::to_string(element)));
  }
  return "multiplies matrices";
}

}  // namespace

std::vector<Finding> look_around(const fs::path& folder) {
  std::vector<Finding> findings = {processor(), kernels(), memory(), disk(folder)};
  findings.push_back(
      tried("MPI", "mpirun and srun start no run of several processes; torchrun does", mpi_version));
  findings.push_back(tried("GPU", "", open_first_gpu));
  if (findings.back().found.empty()) return findings;
  findings.push_back(tried("cuBLAS", "no model runs on the GPU", multiply_on_gpu));
  findings.push_back(tried(
      "attention", "", [] { return describe_attention_backend(AttentionBackend::kAuto, DType::kBFloat16); }));
  findings.push_back(tried("NCCL",
                           "GPUs of several processes need it, or comm.backend: host, by way of host memory",
                           cuda::nccl_version));
  return findings;
}

}  // namespace moh
