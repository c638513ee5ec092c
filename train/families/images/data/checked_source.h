#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "train/families/images/data/picture_source.h"

namespace moh {

/// The one place where opened data are checked, whatever they were read from: there is at least one picture
/// and one class, and the labels of the first `count` pictures are classes. Everything behind it, targets,
/// label embeddings and counts, is indexed by these labels. Throws DataError naming the picture.
void check_source(const LabelledSource& source, std::int64_t count);

/// The source, after a check of all its pictures.
template <class Source>
std::shared_ptr<const Source> checked(std::shared_ptr<const Source> source) {
  check_source(*source, source->size());
  return source;
}

/// A checked source that is computed and whose labels take turns: a turn is checked, or the beginning of
/// a long one.
template <class Source>
std::shared_ptr<const Source> checked_turn(std::shared_ptr<const Source> source) {
  constexpr std::int64_t kMostChecked = 4096;
  check_source(*source, std::min(source->num_classes(), kMostChecked));
  return source;
}

}  // namespace moh
