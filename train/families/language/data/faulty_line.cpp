#include "train/families/language/data/faulty_line.h"

#include <algorithm>
#include <vector>

#include "core/error.h"

namespace moh {

std::int64_t faulty_line(std::string_view text, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (std::int64_t line = 0; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    try {
      ids.clear();
      tokenizer.encode_rest(text.substr(0, end), ids);
    } catch (const DataError&) {
      return line;
    }
    text.remove_prefix(end);
  }
  return 0;
}

}  // namespace moh
