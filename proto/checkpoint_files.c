/*
 * Identity is what the file system says, because reading gigabytes of weights every few seconds is
 * no option. A program that writes the same number of bytes and sets the time back is not noticed.
 *
 * In a folder only the files that a loader reads count, so that notes and other downloads beside
 * them change nothing. Links are followed: Hugging Face's cache consists of them.
 */
#include "proto/checkpoint_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"

struct listing {
    char *lines[LIMIT_CHECKPOINT_FILES];
    size_t count;
};

static bool counts(const char *name)
{
    static const char *const endings[] = {".safetensors",
                                          "config.json",
                                          ".index.json",
                                          "tokenizer.json",
                                          ".jinja",
                                          "tokenizer.model",
                                          "special_tokens_map.json",
                                          "chat_template.json"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t bytes = strlen(endings[i]);
        if (length >= bytes && strcmp(name + length - bytes, endings[i]) == 0)
            return true;
    }
    return false;
}

/* A line feed in a name would end the line. */
static void name_copy(char out[CHECKPOINT_FILE_NAME_BYTES], const char *name)
{
    snprintf(out, CHECKPOINT_FILE_NAME_BYTES, "%s", name);
    for (; *out; out++) {
        if (*out == '\n')
            *out = '?';
    }
}

void checkpoint_files_write_line(const struct stat *status, const char *name,
                                 char line[CHECKPOINT_LINE_BYTES])
{
    char safe[CHECKPOINT_FILE_NAME_BYTES];
    name_copy(safe, name);
    snprintf(line, CHECKPOINT_LINE_BYTES, "%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %s\n",
             (uint64_t)status->st_dev, (uint64_t)status->st_ino, (int64_t)status->st_size,
             (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec, safe);
}

static enum result add(struct listing *listing, const struct stat *status, const char *name,
                       struct error_text *error)
{
    char line[CHECKPOINT_LINE_BYTES];
    if (listing->count == LIMIT_CHECKPOINT_FILES)
        return error_set(error, RESULT_TOO_LARGE, "the checkpoint has more than %u files",
                         LIMIT_CHECKPOINT_FILES);
    checkpoint_files_write_line(status, name, line);
    listing->lines[listing->count] = strdup(line);
    if (!listing->lines[listing->count])
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    listing->count++;
    return RESULT_OK;
}

static enum result add_folder(struct listing *listing, DIR *folder, struct error_text *error)
{
    enum result result = RESULT_OK;
    const struct dirent *entry;
    while (result == RESULT_OK && (entry = readdir(folder))) {
        struct stat status;
        if (counts(entry->d_name) && fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 &&
            S_ISREG(status.st_mode))
            result = add(listing, &status, entry->d_name, error);
    }
    return result;
}

/* The file and, if its name ends as that of a first part does, those of the other parts. */
static enum result add_parts(struct listing *listing, const char *path, struct error_text *error)
{
    enum { ENDING = sizeof "-00001-of-00003.gguf" - 1 };
    size_t length = strlen(path);
    unsigned parts = 1;
    bool split = length > ENDING && strncmp(path + length - ENDING, "-00001-of-", 10) == 0 &&
                 sscanf(path + length - 10, "%5u.gguf", &parts) == 1;
    if (parts > LIMIT_CHECKPOINT_FILES)
        return error_set(error, RESULT_TOO_LARGE, "the checkpoint has more than %u files",
                         LIMIT_CHECKPOINT_FILES);
    enum result result = RESULT_OK;
    char *part = strdup(path);
    if (!part)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    for (unsigned i = 1; i <= parts && result == RESULT_OK; i++) {
        struct stat status;
        if (split) {
            char number[8];
            snprintf(number, sizeof number, "%05u", i % 100000);
            memcpy(part + length - ENDING + 1, number, 5);
        }
        const char *slash = strrchr(part, '/');
        if (stat(part, &status) == 0)
            result = add(listing, &status, slash ? slash + 1 : part, error);
        else if (i == 1)
            result = error_set(error, RESULT_IO, "%s", strerror(errno));
    }
    free(part);
    return result;
}

/* The name is the last field of a line. */
static const char *name_of(const char *line)
{
    for (int field = 0; field < 4; field++) {
        const char *blank = strchr(line, ' ');
        if (!blank)
            break;
        line = blank + 1;
    }
    return line;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(name_of(*(char *const *)left), name_of(*(char *const *)right));
}

static enum result join(struct listing *listing, char **text, struct error_text *error)
{
    size_t bytes = 1;
    for (size_t i = 0; i < listing->count; i++)
        bytes += strlen(listing->lines[i]);
    if (bytes > LIMIT_CHECKPOINT_FILES_BYTES)
        return error_set(error, RESULT_TOO_LARGE,
                         "the names of the checkpoint's files are too long");
    char *at = *text = malloc(bytes);
    if (!at)
        return error_set(error, RESULT_OUT_OF_MEMORY, "out of memory");
    *at = '\0';
    qsort(listing->lines, listing->count, sizeof listing->lines[0], by_name);
    for (size_t i = 0; i < listing->count; i++)
        at = stpcpy(at, listing->lines[i]);
    return RESULT_OK;
}

enum result checkpoint_files_read(const char *path, const char *mmproj, char **text,
                                  struct error_text *error)
{
    struct listing listing = {.count = 0};
    *text = NULL;
    DIR *folder = opendir(path);
    enum result result =
        folder ? add_folder(&listing, folder, error) : add_parts(&listing, path, error);
    if (folder)
        closedir(folder);
    if (result == RESULT_OK && mmproj)
        result = add_parts(&listing, mmproj, error);
    if (result == RESULT_OK)
        result = join(&listing, text, error);
    for (size_t i = 0; i < listing.count; i++)
        free(listing.lines[i]);
    return result;
}

void checkpoint_files_read_name(const char *line, char name[CHECKPOINT_FILE_NAME_BYTES])
{
    line = name_of(line);
    size_t bytes = strcspn(line, "\n");
    if (bytes > CHECKPOINT_FILE_NAME_BYTES - 1)
        bytes = CHECKPOINT_FILE_NAME_BYTES - 1;
    memcpy(name, line, bytes);
    name[bytes] = '\0';
}

/* Order of the names of two lines; a missing line is after all others. */
static int compare_names(const char *left, const char *right)
{
    char left_name[CHECKPOINT_FILE_NAME_BYTES];
    char right_name[CHECKPOINT_FILE_NAME_BYTES];
    if (!*left || !*right)
        return (*left == '\0') - (*right == '\0');
    checkpoint_files_read_name(left, left_name);
    checkpoint_files_read_name(right, right_name);
    return strcmp(left_name, right_name);
}

bool checkpoint_files_differ(const char *recorded, const char *now,
                             char name[CHECKPOINT_FILE_NAME_BYTES])
{
    while (*recorded || *now) {
        size_t bytes = strcspn(recorded, "\n") + 1;
        if (*recorded && *now && strncmp(recorded, now, bytes) == 0) {
            recorded += bytes;
            now += bytes;
            continue;
        }
        checkpoint_files_read_name(compare_names(recorded, now) <= 0 ? recorded : now, name);
        return true;
    }
    return false;
}

/* Bytes of the line's device and inode, with the blank behind them. */
static size_t identity_bytes(const char *line)
{
    size_t bytes = strcspn(line, " ") + 1;
    return bytes + strcspn(line + bytes, " ") + 1;
}

bool checkpoint_files_overwritten(const char *recorded, const char *now)
{
    for (const char *line = recorded; *line; line += strcspn(line, "\n") + 1) {
        size_t identity = identity_bytes(line);
        for (const char *other = now; *other; other += strcspn(other, "\n") + 1)
            if (strncmp(line, other, identity) == 0 &&
                strncmp(line, other, (size_t)(name_of(line) - line)) != 0)
                return true;
    }
    return false;
}
