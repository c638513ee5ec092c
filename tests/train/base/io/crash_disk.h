#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "train/base/io/failpoint.h"

namespace moh {

/// A model of a disk that forgets: file contents last only from their fsync on, and the entries of a folder
/// only from the fsync of that folder on. Until then a crash keeps any part of a file and any first part of
/// the changes of a folder (a rename or an exchange within one folder is one change), each independently of
/// the others.
class CrashDisk {
 public:
  /// The effect of a crash on data that were not synced.
  enum class Luck { kLoseAll, kKeepAll, kLoseContents, kLoseEntries, kRandom };

  /// Starts from the folder as it is, all of it durable.
  explicit CrashDisk(const std::filesystem::path& root);

  void apply(const IoEvent& event);

  /// Writes to `target` what is there after a crash now. `random` decides where `luck` does not.
  void crash(Luck luck, std::mt19937& random, const std::filesystem::path& target) const;

 private:
  struct Node;
  using NodePtr = std::shared_ptr<Node>;
  using Entries = std::map<std::string, NodePtr>;
  /// A change of a folder: `name` gets `node` (nothing: is removed), and `from`, when not empty, goes or gets
  /// `from_node`.
  struct Change {
    std::string name;
    NodePtr node;
    std::string from;
    NodePtr from_node = nullptr;
  };
  struct Node {
    bool is_folder = false;
    std::string contents, durable_contents;
    Entries entries, durable_entries;
    std::vector<Change> unsynced;
  };

  static NodePtr load(const std::filesystem::path& path);
  static void make(Entries& entries, const Change& change);
  Node& folder_of(const std::filesystem::path& path);
  Node& at(const std::filesystem::path& path);
  void change(const std::filesystem::path& path, Change change);

  std::filesystem::path root_path_;
  NodePtr root_;
};

}  // namespace moh
