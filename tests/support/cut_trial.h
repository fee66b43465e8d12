/*
 * Checks that a parser's output does not depend on how its input is cut: runs each case of a corpus
 * cut in two at every byte, and in pieces of every length.
 */
#ifndef SHOAL_TESTS_SUPPORT_CUT_TRIAL_H
#define SHOAL_TESTS_SUPPORT_CUT_TRIAL_H

#include <stddef.h>
#include <stdint.h>

struct cJSON;

/* Callbacks for one case: begin, a piece, and end, which compares with the corpus. */
struct cut_trial {
    void *context;
    void (*begin)(void *context, const struct cJSON *item);
    void (*push)(void *context, const char *bytes, size_t length);
    void (*end)(void *context, const struct cJSON *item, uint32_t pieces);
};

/* `cases` is a list of objects with a member `text`. */
void cut_trial_in_two(const struct cut_trial *trial, const struct cJSON *cases);
void cut_trial_in_pieces(const struct cut_trial *trial, const struct cJSON *cases);

#endif
