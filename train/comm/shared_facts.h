#pragma once

#include <string>
#include <vector>

#include "train/comm/communicator.h"

namespace moh {

/// The subject of a fact, which decides the error that ends the run for a difference.
enum class FactKind {
  kProgram,     ///< ConfigError
  kMachine,     ///< ConfigError
  kSettings,    ///< configuration, command line, environment: ConfigError
  kData,        ///< DataError
  kCheckpoint,  ///< CheckpointError
  kNote,        ///< a difference by which results may differ in rounding: a warning
};

/// Something that the processes of a run take to be the same in all of them.
struct SharedFact {
  FactKind kind = FactKind::kSettings;
  std::string name;   ///< "data.train"
  std::string value;  ///< on one line: "1 file, 4802 tokens, checksum 5d41..."
};
using SharedFacts = std::vector<SharedFact>;

/// Compares the facts of all processes, in one exchange that all take part in. If they differ, all processes
/// throw the same error, of the first kind in which they do, that names each fact, its value in rank 0 and
/// the other values with their ranks. Returns a text for each difference of kNote.
std::vector<std::string> require_same_facts(const SharedFacts& facts, Communicator& processes);

}  // namespace moh
