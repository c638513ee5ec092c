#pragma once

#include <deque>
#include <string>
#include <vector>

#include "train/config/value.h"

namespace moh::config {

/// What a configuration is made of, lowest priority first: the files that the main file includes, the main
/// file, the overrides of the command line. Every root is a map; reading one after the other into the same
/// struct lets a later layer replace single keys of an earlier one.
struct Layers {
  std::deque<Source> sources;  ///< a deque, since marks point at its elements
  std::vector<Value> roots;
  bool complete = true;  ///< false when a part could not be read and keys may be missing
};

/// Reads the file and, at its key `include` (a path or a list of paths, relative to the file), the files
/// below it, then the overrides "key.path=value". What is wrong goes to `problems`; what could be read is
/// returned.
///
/// The value of an override that begins with [ { ' or " is YAML flow syntax (data.train=[a.txt,b.txt]); any
/// other is taken as it stands, so that sample.prompt=ROMEO: needs no quotes beyond the shell's. Of two
/// overrides of one key the later holds.
///
/// Refused: a file that includes itself, includes nested deeper than kMaxIncludeDepth, more than kMaxSources
/// files.
void load_layers(const std::string& path, const std::vector<std::string>& overrides, Layers& layers,
                 Problems& problems);

/// The same for the text of a file that has not been written yet, which includes none.
void load_text(std::string name, std::string text, const std::vector<std::string>& overrides, Layers& layers,
               Problems& problems);

inline constexpr int kMaxIncludeDepth = 8;
inline constexpr std::size_t kMaxSources = 64;

}  // namespace moh::config
