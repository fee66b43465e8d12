/*
 * Downloads a model into the cache.
 */
#ifndef SHOAL_FRONTEND_HUB_HUB_PULL_H
#define SHOAL_FRONTEND_HUB_HUB_PULL_H

#include <stdio.h>

#include "frontend/hub/hub_client.h"
#include "frontend/hub/hub_name.h"

struct hub_pull {
    struct hub_source source;
    const char *cache; /* directory; made if it is missing */
    uint32_t retries;  /* further tries after one that brought no byte */
    FILE *progress;    /* NULL: nothing is shown */
    bool progress_json;
};

/*
 * Reads the list of files, downloads those of the model that the cache lacks, each into a file
 * HASH.incomplete that a later call continues, and checks its size and hash before it gets its name.
 * At most the announced sizes are written, and only if the file system has room for all of them.
 * The snapshot and the revision's ref are written once all files are there.
 *
 * RESULT_NOT_FOUND: there is no such repository, revision or file. RESULT_CORRUPT, RESULT_TOO_LARGE:
 * a file is not what was announced. RESULT_PEER_GONE: cut too often; a later call continues.
 * RESULT_INVALID, RESULT_IO, RESULT_OUT_OF_MEMORY.
 */
enum result hub_pull_run(const struct hub_pull *pull, const struct hub_name *name,
                         struct error_text *error) RESULT_CHECKED;

#endif
