// Runs a fuzz target without a fuzzer: over the files of its corpus, and over mutations of them that are the
// same in every run. A finding is a crash or an exception that the target does not expect.

#include "tests/fuzz/replay.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <iostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/corpus_archive.h"

namespace {

constexpr int kMutations = 3000;

void run(const moh::test::FuzzTarget& target, const std::string& bytes) {
  target.function(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

std::vector<std::string> read_corpus(const std::filesystem::path& archive) {
  std::vector<std::string> corpus;
  for (moh::test::CorpusFile& file : moh::test::CorpusArchive::read(archive))
    corpus.push_back(std::move(file.bytes));
  return corpus;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  /// A file of the corpus, changed in one to four places.
  std::string next() {
    std::string bytes = corpus_[below(corpus_.size())];
    for (std::size_t i = 0, changes = 1 + below(4); i < changes; ++i) change(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void change(std::string& bytes) {
    const std::size_t at = below(bytes.size());
    switch (below(6)) {
      case 0:
        if (!bytes.empty()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = static_cast<char>(below(256));
        break;
      case 2:
        bytes.insert(at, 1 + below(4), static_cast<char>(below(256)));
        break;
      case 3:
        bytes.erase(at, 1 + below(16));
        break;
      case 4:  // a number at its limits
        bytes.replace(at, std::min<std::size_t>(bytes.size() - at, 4),
                      std::string(4, below(2) == 0 ? '\xff' : '\0'));
        break;
      default: {  // a piece of another file
        const std::string& other = corpus_[below(corpus_.size())];
        bytes.insert(at, other.substr(below(other.size()), below(64)));
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{20241015};
};

void replay(const moh::test::FuzzTarget& target, const std::vector<std::string>& corpus) {
  for (const std::string& bytes : corpus) run(target, bytes);
  Mutator mutator(corpus);
  for (int i = 0; i < kMutations; ++i) run(target, mutator.next());
  std::cout << corpus.size() << " files and " << kMutations << " mutations of them were refused or read\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<moh::test::FuzzTarget>& targets = moh::test::fuzz_targets();
  const auto target = std::find_if(targets.begin(), targets.end(), [&](const moh::test::FuzzTarget& known) {
    return argc == 3 && std::string(argv[1]) == known.name;
  });
  if (target == targets.end()) {
    std::cerr << "usage: " << argv[0] << " TARGET CORPUS.tar, with a target of tests/fuzz/CMakeLists.txt\n";
    return 2;
  }
  std::vector<std::string> corpus;
  try {
    corpus = read_corpus(argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "no corpus: " << error.what() << '\n';
    return 2;
  }
  try {
    replay(*target, corpus);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "a fuzz target let this exception out: " << error.what() << '\n';
    return 1;
  }
}
