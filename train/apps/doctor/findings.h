#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moh {

/// Something that a run may need, on this machine.
struct Finding {
  std::string name;     ///< "GPU"
  std::string found;    ///< what there is; empty: nothing
  std::string missing;  ///< what there is not, what that costs, and how to get it; empty: nothing
};

/// The processor and its kernels, memory, the disk of `folder`, MPI, and the GPU with the libraries that it
/// is used by, which are tried. Opens the first GPU that this process sees.
std::vector<Finding> look_around(const std::filesystem::path& folder);

}  // namespace moh
