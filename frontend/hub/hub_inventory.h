/*
 * What a cache has: its models, and their removal.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_INVENTORY_H
#define SHOAL_FRONTEND_HUB_HUB_INVENTORY_H

#include "frontend/hub/hub_listing.h"
#include "frontend/hub/hub_name.h"

/* One snapshot of one repository. */
struct hub_entry {
    struct hub_name name; /* without quant and revision */
    char commit[HUB_COMMIT_BYTES];
    char refs[160]; /* names of its branches and tags, separated by commas; cut if long */
    struct hub_listing listing; /* files that are there */
};

/* malloc'd; hub_inventory_fini() frees. */
struct hub_inventory {
    struct hub_entry *entries; /* by name, then by commit */
    uint32_t count;
};

/* A cache that does not exist is empty. Folders that are no repositories of models, and repositories
 * without organization, are left out. RESULT_IO, RESULT_OUT_OF_MEMORY, RESULT_TOO_LARGE. */
enum result hub_inventory_read(const char *cache, struct hub_inventory *inventory,
                               struct error_text *error) RESULT_CHECKED;
void hub_inventory_fini(struct hub_inventory *inventory);

/*
 * Removes from the cache: all of a repository (org/name), a revision's snapshot (org/name@REVISION),
 * or the GGUF file of a quantization (org/name:QUANT) from all snapshots, or from that of the
 * revision. Blobs that no other snapshot links to go too, and a repository without snapshots.
 * *freed_bytes: of removed files. RESULT_NOT_FOUND: it is not there.
 */
enum result hub_inventory_remove(const char *cache, const struct hub_name *name,
                                 uint64_t *freed_bytes, struct error_text *error) RESULT_CHECKED;

#endif
