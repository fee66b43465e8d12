/*
 * The name of a model on the hub: org/name, org/name:QUANT, org/name@REVISION, or both.
 *
 * A name becomes part of paths and URLs, so its parts have only letters, digits, '-', '_' and '.',
 * and no part starts with '.' or '-'. A revision may have single slashes between such parts.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_NAME_H
#define SHOAL_FRONTEND_HUB_HUB_NAME_H

#include <stdbool.h>

#define HUB_PART_BYTES     97u /* of organization and of name; the hub limits both together to 96 */
#define HUB_REVISION_BYTES 129u /* a branch, a tag, or a commit */
#define HUB_QUANT_BYTES    129u
#define HUB_FOLDER_BYTES   (2 * HUB_PART_BYTES + 12)
#define HUB_COMMIT_BYTES   41u

struct hub_name {
    char org[HUB_PART_BYTES];
    char name[HUB_PART_BYTES];
    char quant[HUB_QUANT_BYTES];       /* as Q4_K_M, or the name of a file; "": not given */
    char revision[HUB_REVISION_BYTES]; /* "main" if not given */
    bool has_revision;
};

/* False: the text is no such name. */
bool hub_name_parse(const char *text, struct hub_name *name);
/* Writes the repository's folder in the cache: models--org--name. */
void hub_name_folder(const struct hub_name *name, char folder[HUB_FOLDER_BYTES]);
/* The reverse, of a folder's name; without quant and revision. */
bool hub_name_from_folder(const char *folder, struct hub_name *name);
/* 40 lower-case hexadecimal digits at the start of `text`. */
bool hub_commit_is_valid(const char *text);

#endif
