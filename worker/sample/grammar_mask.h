/* The tokens that may come next. */
#ifndef SHOAL_WORKER_SAMPLE_GRAMMAR_MASK_H
#define SHOAL_WORKER_SAMPLE_GRAMMAR_MASK_H

#include "worker/sample/grammar_rows.h"
#include "worker/sample/grammar_trie.h"

/* Sets the bits of tokens allowed after the last row; other bits stay. Leaves the rows as they
 * were. The program's lock is held. */
enum grammar_result grammar_mask_fill(const struct grammar_vocabulary *vocabulary,
                                      struct grammar_rows *rows, uint32_t *words);

#endif
