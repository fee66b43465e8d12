/*
 * Opens, inherits and finds the files of a checkpoint (contract in opened_files.h).
 *
 * A file is found by the last part of its path: a checkpoint is one folder, or the parts of a GGUF file
 * and of a projector. Files of one name in two folders are therefore not held. Each descriptor is
 * compared with the record after it was opened, so the held file is the recorded one.
 */
#include "proto/opened_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/must.h"

#define ENTRY_BYTES 40u /* "2147483647:-9223372036854775808 " */

static size_t line_count(const char *recorded)
{
    size_t count = 0;
    for (; *recorded; recorded += strcspn(recorded, "\n") + 1)
        count++;
    return count;
}

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Opens `name` in the folder `path`, or beside the file `path`. */
static int open_at(const char *path, bool is_folder, const char *name)
{
    size_t folder_bytes = is_folder ? strlen(path) : (size_t)(last_part(path) - path);
    char *whole = must_alloc(folder_bytes + strlen(name) + 2, sizeof *whole);
    sprintf(whole, "%.*s%s%s", (int)folder_bytes, path, is_folder ? "/" : "", name);
    int fd = open(whole, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    free(whole);
    return fd;
}

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool is_recorded(int fd, const char *name, const char *recorded, struct stat *status)
{
    char line[CHECKPOINT_LINE_BYTES];
    if (fstat(fd, status) != 0)
        return false;
    checkpoint_files_write_line(status, name, line);
    return strncmp(line, recorded, strlen(line)) == 0;
}

/* The file of one line is beside the model or beside the projector. */
static enum result open_line(const char *path, const char *mmproj, const char *line,
                             struct opened_file *file, struct error_text *error)
{
    struct stat status;
    checkpoint_files_read_name(line, file->name);
    file->fd = open_at(path, is_folder(path), file->name);
    if (mmproj && (file->fd < 0 || !is_recorded(file->fd, file->name, line, &status))) {
        if (file->fd >= 0)
            close(file->fd);
        file->fd = open_at(mmproj, false, file->name);
    }
    if (file->fd < 0)
        return error_set(error, RESULT_IO, "%.150s: %s", file->name, strerror(errno));
    if (!is_recorded(file->fd, file->name, line, &status))
        return error_set(error, RESULT_IO, "%.150s was just replaced", file->name);
    file->changed_ns = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
    return RESULT_OK;
}

static bool has_twins(const struct opened_files *files)
{
    for (size_t i = 1; i < files->count; i++) /* sorted by name */
        if (strcmp(files->list[i - 1].name, files->list[i].name) == 0)
            return true;
    return false;
}

static void text_write(struct opened_files *files)
{
    char *at = files->text = must_alloc(files->count, ENTRY_BYTES);
    for (size_t i = 0; i < files->count; i++)
        at += sprintf(at, "%s%d:%" PRId64, i > 0 ? " " : "", files->list[i].fd,
                      files->list[i].changed_ns);
}

static void list_create(struct opened_files *files, size_t count)
{
    *files = (struct opened_files){.list = must_alloc(count + 1, sizeof files->list[0])};
    for (size_t i = 0; i < count; i++)
        files->list[i].fd = -1;
    files->count = count;
}

enum result opened_files_open(const char *path, const char *mmproj, const char *recorded,
                              struct opened_files *files, struct error_text *error)
{
    size_t count = line_count(recorded);
    struct rlimit limit = {0};
    *files = (struct opened_files){0};
    if (count > LIMIT_OPENED_FILES || getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
        count > limit.rlim_cur / 16)
        return error_set(error, RESULT_TOO_LARGE,
                         "%zu files of %llu descriptors that this process may have", count,
                         (unsigned long long)limit.rlim_cur);
    list_create(files, count);
    enum result result = RESULT_OK;
    for (size_t i = 0; i < count && result == RESULT_OK; i++) {
        result = open_line(path, mmproj, recorded, &files->list[i], error);
        recorded += strcspn(recorded, "\n") + 1;
    }
    if (result == RESULT_OK && has_twins(files))
        result = error_set(error, RESULT_UNSUPPORTED, "two of its files have the same name");
    if (result == RESULT_OK)
        text_write(files);
    else
        opened_files_close(files);
    return result;
}

/* Reads "FD:TIME", perhaps after a blank. */
static bool entry_parse(const char **text, struct opened_file *file)
{
    char *end;
    errno = 0;
    long fd = strtol(*text, &end, 10);
    if (end == *text || *end != ':' || fd <= STDERR_FILENO || fd > INT32_MAX)
        return false;
    *text = end + 1;
    file->changed_ns = strtoll(*text, &end, 10);
    if (end == *text || errno != 0 || (*end != ' ' && *end != '\0'))
        return false;
    file->fd = (int)fd;
    *text = end;
    return true;
}

enum result opened_files_parse(const char *text, const char *recorded, struct opened_files *files,
                               struct error_text *error)
{
    size_t count = line_count(recorded);
    bool right = count <= LIMIT_OPENED_FILES;
    list_create(files, right ? count : 0);
    for (size_t i = 0; i < files->count && right; i++) {
        right = entry_parse(&text, &files->list[i]);
        checkpoint_files_read_name(recorded, files->list[i].name);
        recorded += strcspn(recorded, "\n") + 1;
    }
    if (right && *text == '\0')
        return RESULT_OK;
    free(files->list); /* the numbers may be of other descriptors */
    *files = (struct opened_files){0};
    return error_set(error, RESULT_INVALID,
                     "the descriptors of the checkpoint's files are not those of its list");
}

void opened_files_close(struct opened_files *files)
{
    for (size_t i = 0; i < files->count; i++)
        if (files->list[i].fd >= 0)
            close(files->list[i].fd);
    free(files->list);
    free(files->text);
    *files = (struct opened_files){0};
}

const struct opened_file *opened_files_find(const struct opened_files *files, const char *name)
{
    const char *last = last_part(name);
    for (size_t i = 0; i < files->count; i++)
        if (strcmp(files->list[i].name, last) == 0)
            return &files->list[i];
    return NULL;
}

bool opened_files_differ(const struct opened_files *files, const char *recorded,
                         char name[CHECKPOINT_FILE_NAME_BYTES])
{
    for (size_t i = 0; i < files->count; i++) {
        struct stat status;
        memcpy(name, files->list[i].name, CHECKPOINT_FILE_NAME_BYTES);
        if (!is_recorded(files->list[i].fd, name, recorded, &status))
            return true;
        recorded += strcspn(recorded, "\n") + 1;
    }
    return false;
}
