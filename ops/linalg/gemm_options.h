#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace moh {

/// How algorithms for matrix multiplications on a GPU are chosen, for the whole process.
struct GemmOptions {
  /// Time the algorithms that cuBLASLt proposes when a matrix multiplication is first computed, and
  /// take the fastest, rather than the first proposal. Timings differ from run to run; `algorithms`
  /// makes the choice reproducible.
  bool search = false;
  /// Algorithms of an earlier search, the text that `on_found` got; empty: none.
  std::string algorithms;
  /// The name of `algorithms` in errors: its file.
  std::string algorithms_name = "algorithms";
  /// Called whenever the search has found an algorithm, with all of them, those of `algorithms` included.
  std::function<void(const std::string& algorithms)> on_found;
  /// Called with a sentence for each proposal that cuBLASLt refuses to run, so that the next one is taken:
  /// once for a matrix multiplication, and in each run alike.
  std::function<void(const std::string& refusal)> on_refused;
};

/// Applies to matrix multiplications from now on. A GPU must be open. Throws DeviceError when cuBLASLt cannot
/// be loaded, DataError when `algorithms` is invalid, or belongs to another GPU or version of cuBLASLt.
void set_gemm_options(const GemmOptions& options);

/// The result of a search for one matrix multiplication. Seconds are the shortest of several runs.
struct GemmSearch {
  std::string name;
  std::size_t candidates = 0;  ///< algorithms that were timed
  double first_seconds = 0;    ///< of the first that runs, in the order that cuBLASLt proposes
  double best_seconds = 0;
};
/// The searches of this process so far, in their order.
std::vector<GemmSearch> gemm_searches();

}  // namespace moh
