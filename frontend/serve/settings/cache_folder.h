/*
 * The user's cache directory.
 */
#ifndef SHOAL_FRONTEND_SERVE_SETTINGS_CACHE_FOLDER_H
#define SHOAL_FRONTEND_SERVE_SETTINGS_CACHE_FOLDER_H

#include <stdbool.h>

#define CACHE_FOLDER_BYTES 1024u /* of a path */

/* Writes the path `below` the home directory of the process's user, existing or not; false if there
 * is no home or the path is too long. */
bool cache_folder_in_home(const char *below, char path[CACHE_FOLDER_BYTES]);

/* Writes the path of an existing directory that only its owner can read, or "" if there is none
 * (logged). `wanted`: as given by the user; NULL: .cache/shoal in the home directory; "none": no
 * directory. */
void cache_folder_find(const char *wanted, char path[CACHE_FOLDER_BYTES]);

#endif
