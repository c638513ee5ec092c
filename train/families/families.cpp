#include "train/families/families.h"

#include "train/families/diffusion/diffusion_family.h"
#include "train/families/images/image_family.h"
#include "train/families/language/language_family.h"
#include "train/families/translation/translation_family.h"

namespace moh {

const Families& families() {
  static const Families table(
      {&language_family(), &image_family(), &diffusion_family(), &translation_family()});
  return table;
}

}  // namespace moh
