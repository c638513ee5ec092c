#pragma once

#include <string_view>

namespace moh {

/// Files that are compiled into the program, so that a first run needs none beside it.
struct EmbeddedFiles {
  std::string_view documentation;                ///< the pages of docs/, one behind the other: Markdown
  std::string_view language, images, diffusion;  ///< configurations
};
const EmbeddedFiles& embedded_files();

}  // namespace moh
