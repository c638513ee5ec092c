#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "train/comm/shared_facts.h"

namespace moh {

struct RunConfig;

/// The facts that must be the same in all processes of a run, for require_same_facts().

/// The version of the program and its file, the instruction set of its kernels, the C library; with a GPU,
/// the variables of the environment by which CUDA's libraries compute in another way.
SharedFacts program_facts(const RunConfig& config);
/// Every key of the configuration, paths being absolute. Of the device, each process may have taken its own.
SharedFacts config_facts(const RunConfig& config);
/// (configuration key, description) pairs, as TaskData::contents and Task::identity() have them; values of
/// several lines or of great length become a checksum.
SharedFacts data_facts(const std::vector<std::pair<std::string, std::string>>& contents);
/// The GPU on which the process computes; nothing on the CPU.
SharedFacts device_facts(const RunConfig& config);

/// The contents of a checkpoint of moh: its step, and the checksum of the manifest, which has those of all
/// its files. Throws CheckpointError.
SharedFact checkpoint_fact(const std::string& name, const std::filesystem::path& step_folder);
/// The weights at `path`, of `part` as in open_weights(): of a checkpoint as checkpoint_fact(), of other
/// files a hash of all their tensors, for which they are read. Throws CheckpointError.
SharedFact weights_fact(const std::string& name, const std::filesystem::path& path,
                        const std::string& part = {});

}  // namespace moh
