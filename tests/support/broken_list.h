/*
 * Lists of broken files (tests/golden/broken_checkpoints): sets of valid files, and cases that change
 * one file of a set in one place, with the expected error text.
 *
 *     % SET FILE DATA_BYTES     a file of a set; its text is the next line. With DATA_BYTES it is a
 *                               safetensors file: length, text, so many bytes of zeros
 *     @ SET FILE                a case; what it changes follows
 *     - TEXT                    what is replaced, once; absent: the whole file
 *     + TEXT                    by what; absent: the file is gone
 *     = WORDS                   what the refusal says
 *
 * "- #cut" with "+ N" keeps N bytes of the file, with "+ -N" or "+ +N" so many fewer or more; "-
 * #length" with "+ N" writes N where a safetensors file tells its header's length.
 */
#ifndef SHOAL_TESTS_SUPPORT_BROKEN_LIST_H
#define SHOAL_TESTS_SUPPORT_BROKEN_LIST_H

#include <stdbool.h>
#include <stdint.h>

struct broken_list; /* opaque */

struct broken_case {
    uint32_t line; /* of the list, for messages */
    const char *set;
    const char *file;
    const char *find;    /* or NULL */
    const char *replace; /* or NULL */
    const char *words;
};

/* Fails the running test if the list cannot be read. */
struct broken_list *broken_list_read(const char *path);
void broken_list_destroy(struct broken_list *list);

uint32_t broken_list_count(const struct broken_list *list);
const struct broken_case *broken_list_case(const struct broken_list *list, uint32_t index);

/* Makes `folder` hold the files of a set and no others. */
void broken_list_write_set(const struct broken_list *list, const char *set, const char *folder);
/* The same with the case's change. */
void broken_list_write_case(const struct broken_list *list, const struct broken_case *c,
                            const char *folder);
/* The name of set number `index`; NULL after the last. */
const char *broken_list_set(const struct broken_list *list, uint32_t index);

#endif
