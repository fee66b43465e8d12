/*
 * Where a user's programs keep what they can make again.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_CACHE_FOLDER_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_CACHE_FOLDER_H

#include <stdbool.h>

#define CACHE_FOLDER_BYTES 1024u /* of a path */

/* Writes the path of what lies `below` the home of the user whose process this is, there or not;
 * false when there is no home, or the path is too long. */
bool cache_folder_in_home(const char *below, char path[CACHE_FOLDER_BYTES]);

/* Writes the path of a folder that exists and only its owner can read, or "" when there is none,
 * which is said in the log. `wanted`: as given by a person; NULL: .cache/shoal in the home of the
 * user whose process this is; "none": no folder. */
void cache_folder_find(const char *wanted, char path[CACHE_FOLDER_BYTES]);

#endif
