#pragma once

#include <deque>
#include <string>
#include <vector>

#include "train/config/value.h"

namespace moh::config {

/// The layers of a configuration, lowest priority first: the files that the main file includes, the main
/// file, the overrides of the command line. Every root is a map. The layers are read into the same struct one
/// after the other, so that later layers replace single keys of earlier ones.
struct Layers {
  std::deque<Source> sources;  ///< a deque, as marks point to its elements
  std::vector<Value> roots;
  bool complete = true;  ///< false if a part could not be read, so that keys may be missing
};

/// Reads the file and the files of its key `include` (a path or a list of paths, relative to the file), then
/// the overrides "key.path=value". Errors are added to `problems`; what could be read is added to `layers`.
///
/// The value of an override that begins with [ { ' or " is YAML flow syntax (data.train=[a.txt,b.txt]); any
/// other is used literally, so that sample.prompt=ROMEO: needs no quotes beyond the shell's. Of two overrides
/// of the same key the last one counts.
///
/// Refused: a file that includes itself, includes nested deeper than kMaxIncludeDepth, more than kMaxSources
/// files.
void load_layers(const std::string& path, const std::vector<std::string>& overrides, Layers& layers,
                 Problems& problems);

/// Loads the text of a file that has not been written yet; it must not include files.
void load_text(std::string name, std::string text, const std::vector<std::string>& overrides, Layers& layers,
               Problems& problems);

inline constexpr int kMaxIncludeDepth = 8;
inline constexpr std::size_t kMaxSources = 64;

}  // namespace moh::config
