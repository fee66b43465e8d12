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
/* A response that another process of this server sends: `bytes` of its file, and the decoded `file`, which is
 * taken over. If `record` (NULL: there is none) is unfinished, it ends as the file says; without one the
 * response is new. Either has a file afterwards. On success *made is NULL or a reference to a new unfinished
 * record. RESULT_CORRUPT: the response that it continues is not there. */
enum result response_recovery_receive(struct response_store *store,
                                      struct response_journal *journal,
                                      const struct text_buffer *bytes, struct response_file *file,
                                      struct response_record *record, struct response_record **made,
                                      struct error_text *error) RESULT_CHECKED;
/* Reads the file of an unfinished record again, for what its answer is made from. */
enum result response_recovery_read(struct response_journal *journal, const char *id,
                                   struct response_file *file,
                                   struct error_text *error) RESULT_CHECKED;

#endif
