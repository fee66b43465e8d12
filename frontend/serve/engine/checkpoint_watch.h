/*
 * Holds the files of the served checkpoint open, and notices that one was overwritten or replaced after
 * the start. Workers map these files and read them again when they are restarted: a replaced file is
 * still there for them, an overwritten one could change answers silently.
 */
#ifndef SHOAL_FRONTEND_SERVE_ENGINE_CHECKPOINT_WATCH_H
#define SHOAL_FRONTEND_SERVE_ENGINE_CHECKPOINT_WATCH_H

#include <stdbool.h>

#include "proto/opened_files.h"

struct checkpoint_watch;

/* Records the files of `path` and `mmproj`, if that is not NULL, and compares them every two seconds on a thread of its own, because a
 * network file system may hang. Nothing is watched if they cannot be listed. */
struct checkpoint_watch *checkpoint_watch_create(const char *path, const char *mmproj);
void checkpoint_watch_destroy(struct checkpoint_watch *watch);

/* The record for workers (checkpoint_files.h); NULL: none. */
const char *checkpoint_watch_record(const struct checkpoint_watch *watch);
/* The files of the record, open for workers; NULL: they are not held, which the log explains. */
const struct opened_files *checkpoint_watch_files(const struct checkpoint_watch *watch);
/* False: the files are as recorded. Otherwise `name` is the first that differs. */
bool checkpoint_watch_changed(struct checkpoint_watch *watch,
                              char name[CHECKPOINT_FILE_NAME_BYTES]);
/* True if they are changed and were the same in the last two looks: no program is writing them. */
bool checkpoint_watch_settled(struct checkpoint_watch *watch);
/* True if a recorded file was changed in place (checkpoint_files_overwritten()). */
bool checkpoint_watch_overwritten(struct checkpoint_watch *watch);

#endif
