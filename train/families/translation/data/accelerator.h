#pragma once

#include "train/families/translation/data/parallel_text.h"

namespace moh {

/// Removes from both texts of a message the mark of its accelerator key, "_" (GTK) or "&" (Qt):
/// "_Open", "Ö_ffnen" become "Open", "Öffnen"; where the key stands apart, its parentheses go as well
/// ("(_O)", as East Asian translations have it).
///
/// A character is such a mark if it occurs once in each of the texts, both times before a letter or digit,
/// and is not part of an identifier or entity: the words around it differ or it begins the message, it does
/// not lie within a word of capitals (FILE_NAME), and it does not begin "&lt;" and the like.
void remove_accelerator(TextPair& pair);

}  // namespace moh
