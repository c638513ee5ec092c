#include "train/families/families.h"

#include "train/tasks/language/language_family.h"

namespace moh {

const Families& families() {
  static const Families table({&language_family()});
  return table;
}

}  // namespace moh
