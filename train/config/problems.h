#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/config_faults.h"

namespace moh::config {

/// Limit of the size of a config file. Real ones have a few kB.
inline constexpr std::size_t kMaxSourceBytes = std::size_t{256} << 10;

/// A text that contains configuration: a file, or one override of the command line. Marks point to it, so it
/// must not be moved.
struct Source {
  std::string name;  ///< the file's path as the user knows it, or "command line: train.steps=5"
  std::string text;
  bool is_file = true;
  int order = 0;  ///< position among the sources of one run; errors are listed in this order
};

/// A position in a source, or the source as a whole.
struct Mark {
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);

  const Source* source = nullptr;
  std::size_t offset = kWhole;  ///< bytes into source->text

  /// "configs/a.yaml:3:7" with line and column from 1, the column counted in characters; for an override and
  /// for a source as a whole its name.
  std::string text() const;
};

/// Collects all errors of a configuration, to report them at once.
class Problems {
 public:
  /// "mark: key: expected E, found F; fix". `key` and `fix` may be empty.
  void add(Mark mark, std::string_view key, std::string_view expected, std::string_view found,
           std::string_view fix = "");
  /// "mark: text".
  void add(Mark mark, std::string text);

  bool empty() const { return count_ == 0; }
  /// Whether kMaxKept are stored; further ones are only counted. Checked before composing costly messages.
  bool full() const { return problems_.size() == kMaxKept; }

  /// Throws ConfigError with one line per problem, in the order of sources and positions, if there is any.
  void throw_if_any() const;

 private:
  static constexpr std::size_t kMaxKept = 50;

  struct Problem {
    Mark mark;
    std::string text;
  };
  std::vector<Problem> problems_;
  std::size_t count_ = 0;
};

/// The keys that were given, their positions, and which of them could not be read.
struct GivenKeys {
  std::map<std::string, Mark, std::less<>> places;  ///< of the value in effect: the last layer's
  /// Counts that were given as shares of a layer's heads, in percent. They become counts when the number of
  /// heads is known.
  std::map<std::string, double, std::less<>> shares;
  /// Keys, sections too, whose value was refused, and those that a misspelt key was probably meant to be.
  std::set<std::string, std::less<>> refused;
};

/// Collects violations of rules between fields. A rule names its keys, so that the message can point to one
/// that the user gave, and that nothing is reported about values which could not be read.
class Rules {
 public:
  /// `main` is the position for rules of whose keys none was given; `preset_key` is the key whose value sets
  /// the other keys of its section.
  Rules(const GivenKeys& given, Mark main, std::string_view preset_key, Problems& problems)
      : given_(given), main_(main), preset_key_(preset_key), problems_(problems) {}

  /// Adds "mark: key: expected E, found F; fix" for the first of `keys`, at the position of the first that
  /// was given.
  void refuse(const std::vector<std::string>& keys, std::string_view expected, std::string_view found,
              std::string_view fix = "");
  /// Adds the results of a model's own check.
  void refuse(const ConfigFaults& faults);
  /// Whether the user gave the key.
  bool gives(std::string_view key) const { return given_.places.contains(key); }

 private:
  /// Whether the key, or a section that contains it, was refused.
  bool was_refused(std::string_view key) const;
  Mark place_of(const std::vector<std::string>& keys) const;

  const GivenKeys& given_;
  Mark main_;
  std::string_view preset_key_;
  Problems& problems_;
};

}  // namespace moh::config
