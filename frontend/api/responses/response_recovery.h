/*
 * Loads the stored responses of an earlier process at start.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_RECOVERY_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_RECOVERY_H

#include "frontend/api/responses/response_file.h"
#include "frontend/api/responses/response_journal.h"
#include "frontend/api/responses/response_store.h"

/* Loads the newest files, up to `max_bytes`, and gives the store the journal. A file that is
 * damaged, or whose conversation is incomplete, is logged and removed; one of another version or
 * user is logged and left alone. Returns references to the unfinished records, oldest first; the
 * caller frees the list. */
struct response_record **response_recovery_load(struct response_store *store,
                                                struct response_journal *journal,
                                                uint64_t max_bytes, size_t *unfinished_count);
/* Reads the file of an unfinished record again, for what its answer is made from. */
enum result response_recovery_read(struct response_journal *journal, const char *id,
                                   struct response_file *file,
                                   struct error_text *error) RESULT_CHECKED;

#endif
