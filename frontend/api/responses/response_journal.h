/*
 * The directory of --state-dir: one file for each stored response (response_file.h), named
 * <id>.response, or <id>.hidden if only responses that continue it need it.
 *
 * A file is written under another name, synced and renamed, so a crash at any moment leaves the old
 * file or the new one. What cannot be written stays in memory only: the log says so once, and
 * figures count it.
 *
 * The directory belongs to the user of this process, no other user may write to it, and one server
 * uses it at a time. A server hands it to its successor while answers are still being made:
 *
 *   WAITING --take--> OWN --leave--> LEFT --forward--> FORWARDING
 *                      ^--------------+ return
 *
 * LEFT and WAITING: what would be written waits. FORWARDING: it is sent to the successor, as messages
 * (below). Every function may be called from any thread.
 */
#ifndef SHOAL_FRONTEND_API_RESPONSES_RESPONSE_JOURNAL_H
#define SHOAL_FRONTEND_API_RESPONSES_RESPONSE_JOURNAL_H

#include <stdint.h>

#include "frontend/api/responses/response_items.h"
#include "proto/result.h"

struct response_journal;

/* What write_later() writes. */
struct response_journal_source {
    void *context;
    void (*encode)(void *context, struct text_buffer *out);
    void (*release)(void *context); /* called once, after encode() */
};

struct response_journal_entry {
    char id[RESPONSE_ID_BYTES];
    bool hidden;
    uint64_t bytes;
    int64_t changed_ns; /* time of the last write, Unix */
};

struct response_journal_figures {
    uint64_t written;
    uint64_t failed;
};

/*
 * A message of a server to its successor, on a stream: one byte of its kind, the number of its bytes
 * as 4 bytes (little-endian), and these. LEAVE: the directory is the successor's, no bytes.
 * RESPONSE: a response, as a file of the directory. WITHDRAW: the id of one that was deleted.
 */
#define RESPONSE_MESSAGE_LEAVE    'L'
#define RESPONSE_MESSAGE_RESPONSE 'F'
#define RESPONSE_MESSAGE_WITHDRAW 'D'
#define RESPONSE_MESSAGE_HEAD     5u

/* Creates the directory if its parent exists. */
enum result response_journal_open(const char *path, struct response_journal **journal,
                                  struct error_text *error) RESULT_CHECKED;
/* WAITING: another server still has the directory, which exists. */
enum result response_journal_open_waiting(const char *path, struct response_journal **journal,
                                          struct error_text *error) RESULT_CHECKED;
enum result response_journal_take(struct response_journal *journal,
                                  struct error_text *error) RESULT_CHECKED;
/* Writes what it has, gives the directory up and sends LEAVE on `channel`, which is taken over. It
 * happens on the journal's thread. */
void response_journal_leave(struct response_journal *journal, int channel);
/* The successor has the directory. */
void response_journal_forward(struct response_journal *journal);
/* It failed, or did not take it: the directory is this server's again. Without effect in OWN. */
void response_journal_return(struct response_journal *journal);
/* True once leave() was called, until return(). */
bool response_journal_is_left(struct response_journal *journal);
/* Its descriptor, for files with other names; valid until the journal is closed. -1 for NULL. */
int response_journal_directory(const struct response_journal *journal);
/* Writes what write_later() was given, then closes. NULL is allowed. */
void response_journal_close(struct response_journal *journal);

/* Writes now. False: the file is not there. */
bool response_journal_write(struct response_journal *journal, const char *id,
                            const struct text_buffer *bytes);
/* Writes on the journal's thread. */
void response_journal_write_later(struct response_journal *journal, const char *id,
                                  const struct response_journal_source *source);
/* Of a file that exists or will be written. */
void response_journal_hide(struct response_journal *journal, const char *id);
/* A client deleted it; FORWARDING: the successor learns it. Call it before hide() or remove(). */
void response_journal_withdraw(struct response_journal *journal, const char *id);
/* Not while write_later() has its source. */
void response_journal_remove(struct response_journal *journal, const char *id);
struct response_journal_figures response_journal_figures(struct response_journal *journal);

/* --- at start -------------------------------------------------------------------------------- */

/* Lists the files; the caller frees. Removes unfinished ones. */
struct response_journal_entry *response_journal_list(struct response_journal *journal,
                                                     size_t *count);
/* At most entry->bytes of the file, if it belongs to the user of this process. */
enum result response_journal_read(struct response_journal *journal,
                                  const struct response_journal_entry *entry,
                                  struct text_buffer *bytes,
                                  struct error_text *error) RESULT_CHECKED;

#endif
