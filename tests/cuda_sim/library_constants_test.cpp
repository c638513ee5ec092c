#include <catch2/catch.hpp>
#include <fstream>
#include <initializer_list>
#include <regex>
#include <sstream>
#include <string>

// The simulated libraries have headers of their own. Their constants are those of the real ones, where there
// are some to compare with.

namespace {

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// Every NAME = VALUE of our header stands in one of theirs, but for a version; returns how many there are.
[[maybe_unused]] int compare_constants(const std::string& ours, const std::string& folder,
                                       std::initializer_list<const char*> theirs,
                                       const std::string& version) {
  const std::string text = text_of(MOH_SOURCE_DIR "/tests/cuda_sim/include/" + ours);
  std::string real;
  for (const char* name : theirs) real += text_of(folder + "/" + name);
  const std::regex constant(R"((CU\w+|nccl\w+)\s*=\s*(\(?\w+(?: \| \w+)*\)?))");
  int count = 0;
  for (auto match = std::sregex_iterator(text.begin(), text.end(), constant); match != std::sregex_iterator();
       ++match) {
    const std::string name = (*match)[1];
    const std::string value = std::regex_replace((*match)[2].str(), std::regex(R"([(|)])"), R"(\$&)");
    // Whichever version is installed; and types.
    if (name == version || name.ends_with("_t")) continue;
    ++count;
    INFO(name);
    CHECK(std::regex_search(real, std::regex("\\b" + name + "\\s*=\\s*" + value + "(?!\\w| \\|)")));
  }
  return count;
}

}  // namespace

TEST_CASE("sim: the constants of the simulated cuBLASLt are the toolkit's", "[sim]") {
#ifdef MOH_TOOLKIT_HEADERS
  CHECK(compare_constants("cublasLt.h", MOH_TOOLKIT_HEADERS,
                          {"cublasLt.h", "cublas_api.h", "library_types.h"}, "CUBLAS_VER_MAJOR") > 30);
#else
  WARN("no CUDA toolkit to compare with");
#endif
}

TEST_CASE("sim: the constants of the simulated cuDNN are the toolkit's", "[sim]") {
#ifdef MOH_CUDNN_HEADERS
  CHECK(compare_constants("cudnn.h", MOH_CUDNN_HEADERS, {"cudnn_graph.h", "cudnn_ops.h", "cudnn_cnn.h"},
                          "CUDNN_MAJOR") > 25);
#else
  WARN("no headers of cuDNN to compare with");
#endif
}

TEST_CASE("sim: the constants of the simulated NCCL are the library's", "[sim]") {
#ifdef MOH_NCCL_HEADERS
  CHECK(compare_constants("nccl.h", MOH_NCCL_HEADERS, {"nccl.h"}, "") > 13);
#else
  WARN("no header of NCCL to compare with");
#endif
}
