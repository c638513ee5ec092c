#include "train/families/families.h"

#include "train/tasks/diffusion/diffusion_family.h"
#include "train/tasks/images/image_family.h"
#include "train/tasks/language/language_family.h"

namespace moh {

const Families& families() {
  static const Families table({&language_family(), &image_family(), &diffusion_family()});
  return table;
}

}  // namespace moh
