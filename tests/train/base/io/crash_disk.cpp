#include "tests/train/base/io/crash_disk.h"

#include <functional>

#include "core/error.h"
#include "tests/support/temporary_folder.h"

namespace moh {

namespace fs = std::filesystem;

namespace {

std::size_t pick(CrashDisk::Luck luck, bool lose, std::size_t most, std::mt19937& random) {
  if (luck == CrashDisk::Luck::kRandom) return std::uniform_int_distribution<std::size_t>(0, most)(random);
  return lose ? 0 : most;
}

}  // namespace

CrashDisk::CrashDisk(const fs::path& root) : root_path_(root), root_(load(root)) {}

CrashDisk::NodePtr CrashDisk::load(const fs::path& path) {
  auto node = std::make_shared<Node>();
  node->is_folder = fs::is_directory(path);
  if (node->is_folder) {
    for (const auto& entry : fs::directory_iterator(path)) {
      node->entries[entry.path().filename().string()] = load(entry.path());
    }
    node->durable_entries = node->entries;
  } else {
    node->contents = node->durable_contents = read_file(path);
  }
  return node;
}

CrashDisk::Node& CrashDisk::at(const fs::path& path) {
  Node* node = root_.get();
  const fs::path relative = path.lexically_relative(root_path_);
  if (relative == ".") return *node;
  for (const fs::path& part : relative) node = node->entries.at(part.string()).get();
  return *node;
}

CrashDisk::Node& CrashDisk::folder_of(const fs::path& path) {
  return at(path.parent_path());
}

void CrashDisk::make(Entries& entries, const Change& change) {
  if (!change.from.empty()) entries.erase(change.from);
  entries.erase(change.name);
  if (change.node != nullptr) entries[change.name] = change.node;
  if (change.from_node != nullptr) entries[change.from] = change.from_node;
}

void CrashDisk::change(const fs::path& path, Change change) {
  Node& folder = folder_of(path);
  make(folder.entries, change);
  folder.unsynced.push_back(std::move(change));
}

void CrashDisk::apply(const IoEvent& event) {
  const std::string name = event.path.filename().string();
  switch (event.kind) {
    case IoEvent::Kind::kCreate:
    case IoEvent::Kind::kMakeDirectory: {
      auto node = std::make_shared<Node>();
      node->is_folder = event.kind == IoEvent::Kind::kMakeDirectory;
      return change(event.path, {name, std::move(node), ""});
    }
    case IoEvent::Kind::kWrite:
      at(event.path).contents += event.data;
      return;
    case IoEvent::Kind::kSyncFile: {
      Node& file = at(event.path);
      file.durable_contents = file.contents;
      return;
    }
    case IoEvent::Kind::kRename: {
      MOH_CHECK(event.path.parent_path() == event.target.parent_path(), "renames stay within one folder");
      const NodePtr moved = folder_of(event.path).entries.at(name);
      return change(event.target, {event.target.filename().string(), moved, name});
    }
    case IoEvent::Kind::kExchange: {
      MOH_CHECK(event.path.parent_path() == event.target.parent_path(), "exchanges stay within one folder");
      const Entries& entries = folder_of(event.path).entries;
      const std::string other = event.target.filename().string();
      return change(event.path, {name, entries.at(other), other, entries.at(name)});
    }
    case IoEvent::Kind::kRemoveFile:
    case IoEvent::Kind::kRemoveDirectory:
      return change(event.path, {name, nullptr, ""});
    case IoEvent::Kind::kSyncDirectory: {
      Node& folder = at(event.path);
      folder.durable_entries = folder.entries;
      folder.unsynced.clear();
      return;
    }
  }
}

void CrashDisk::crash(Luck luck, std::mt19937& random, const fs::path& target) const {
  const bool lose_entries = luck == Luck::kLoseAll || luck == Luck::kLoseEntries;
  const bool lose_contents = luck == Luck::kLoseAll || luck == Luck::kLoseContents;
  const std::function<void(const Node&, const fs::path&)> write = [&](const Node& node,
                                                                      const fs::path& path) {
    if (!node.is_folder) {
      const std::size_t unsynced = node.contents.size() - node.durable_contents.size();
      write_file(path, node.contents.substr(
                           0, node.durable_contents.size() + pick(luck, lose_contents, unsynced, random)));
      return;
    }
    fs::create_directories(path);
    Entries entries = node.durable_entries;
    const std::size_t kept = pick(luck, lose_entries, node.unsynced.size(), random);
    for (std::size_t i = 0; i < kept; ++i) make(entries, node.unsynced[i]);
    for (const auto& [name, child] : entries) write(*child, path / name);
  };
  write(*root_, target);
}

}  // namespace moh
