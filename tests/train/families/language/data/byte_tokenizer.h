#pragma once

#include "train/tokenizers/tokenizer.h"

namespace moh::test {

/// Ids are the bytes of a text: tests of data need no file of a vocabulary.
inline const ByteTokenizer byte_tokenizer;

}  // namespace moh::test
