#pragma once

#include <functional>

#include "tests/support/language_runs.h"
#include "train/trainer/task/family.h"

namespace moh::test {

/// Trains for eight steps with and without a CUDA graph, uses the model for something else after the sixth,
/// and checks that both give the same bits, that no two steps do, and that the host waits for none from the
/// third on.
void check_same_with_graph(RunConfig config, const std::function<void(const Model&)>& use,
                           const Family& family = language_family());

}  // namespace moh::test
