#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/config_faults.h"

namespace moh::config {

/// A config is a page of keys; a file beyond this is not one.
inline constexpr std::size_t kMaxSourceBytes = std::size_t{256} << 10;

/// A text that configuration comes from: a file, or one override of the command line. Marks point into it, so
/// it stays where it is.
struct Source {
  std::string name;  ///< the file's path as the user knows it, or "command line: train.steps=5"
  std::string text;
  bool is_file = true;
  int order = 0;  ///< position among the sources of one run; errors are listed in this order
};

/// A place in a source, or the source as a whole.
struct Mark {
  static constexpr std::size_t kWhole = static_cast<std::size_t>(-1);

  const Source* source = nullptr;
  std::size_t offset = kWhole;  ///< bytes into source->text

  /// "configs/a.yaml:3:7" with line and column from 1, the column counted in characters; for an override and
  /// for a source as a whole its name.
  std::string text() const;
};

/// Everything that is wrong with a configuration, so that a user sees all of it at once.
class Problems {
 public:
  /// "mark: key: expected E, found F; fix". `key` and `fix` may be empty.
  void add(Mark mark, std::string_view key, std::string_view expected, std::string_view found,
           std::string_view fix = "");
  /// "mark: text".
  void add(Mark mark, std::string text);

  bool empty() const { return count_ == 0; }
  /// No more than this many are kept; the rest is counted. What is costly to word asks first.
  bool full() const { return problems_.size() == kMaxKept; }

  /// Throws ConfigError with one line per problem, in the order of sources and places, if there is any.
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

/// Which keys were given, where, and which of them could not be read.
struct GivenKeys {
  std::map<std::string, Mark, std::less<>> places;  ///< of the value that holds: the last layer's
  /// Of counts that were given as shares of a layer's heads: the percents. The counts come when the heads are
  /// known.
  std::map<std::string, double, std::less<>> shares;
  /// Whole keys as they were written, of those that were given by a name of earlier versions.
  std::map<std::string, std::string, std::less<>> old_names;
  /// Keys, sections too, whose value was refused, and those that a misspelt key was probably meant to be.
  std::set<std::string, std::less<>> refused;
};

/// The key as messages name it: "model.moh.top_k", or "init.moh.routed_top_k (now model.moh.top_k)" where the
/// user wrote that.
std::string named_as_written(const std::string& key, const GivenKeys& given);

/// Where rules between fields report to. A rule names the keys it is about, so that the message points at one
/// that the user wrote, and so that nothing is said about a value which could not be read in the first place.
class Rules {
 public:
  /// `main` stands for places when none of a rule's keys was given; `preset_key` is the key whose value fills
  /// in the other keys of its section.
  Rules(const GivenKeys& given, Mark main, std::string_view preset_key, Problems& problems)
      : given_(given), main_(main), preset_key_(preset_key), problems_(problems) {}

  /// "mark: key: expected E, found F; fix" for the first of `keys`, at the place of the first that was given.
  void refuse(const std::vector<std::string>& keys, std::string_view expected, std::string_view found,
              std::string_view fix = "");
  /// What a model's own check has found.
  void refuse(const ConfigFaults& faults);

 private:
  /// The key, or a section that it stands in.
  bool was_refused(std::string_view key) const;
  Mark place_of(const std::vector<std::string>& keys) const;

  const GivenKeys& given_;
  Mark main_;
  std::string_view preset_key_;
  Problems& problems_;
};

}  // namespace moh::config
