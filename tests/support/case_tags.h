#pragma once

#include <string>

// Tags of Catch2 for cases that depend on more than the program and the processor: [shared] on further test
// data (tests/support/shared_data.h), [every_isa] on the instruction sets that kernels are compiled for
// (tests/support/every_isa.h), [toolkit] on a CUDA toolkit and its libraries. A case without them has ctest's
// label host (tests/case_labels.cmake), and continuous integration runs it once. Cases with the tag [one_isa]
// are not repeated under each instruction set, either: they choose one, the same in each build, or compute
// nothing that shorter cases do not.

namespace moh::test {

/// Fails the running case if it lacks the tag, given without brackets.
void require_tag(const std::string& tag);

}  // namespace moh::test
