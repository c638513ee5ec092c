#pragma once

#include <cstddef>
#include <vector>

#include "core/parallel.h"
#include "core/scratch.h"

namespace moh {

/// Calls body(task, scratch) for all tasks, on all threads unless `serial`; scratch points to `bytes` of
/// memory private to the thread.
template <class Task, class Body>
void run_tasks(const std::vector<Task>& tasks, bool serial, std::size_t bytes, const Body& body) {
  const Scratch scratch(bytes * static_cast<std::size_t>(num_threads()));
  const auto count = static_cast<std::int64_t>(tasks.size());
  parallel_for(count, serial && count > 0 ? count : 1, [&](std::int64_t begin, std::int64_t end) {
    std::byte* own = scratch.as<std::byte>() + bytes * static_cast<std::size_t>(thread_index());
    for (std::int64_t i = begin; i < end; ++i) body(tasks[static_cast<std::size_t>(i)], own);
  });
}

}  // namespace moh
