/*
 * Reads the folder of models and its settings (contract in model_folder.h).
 */
#include "frontend/serve/models/model_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "frontend/serve/models/model_repository.h"
#include "proto/must.h"

#define PATH_BYTES    1536u
#define SETTINGS_NAME "shoal.ini"
#define SETTINGS_LINE 1024u
#define SPLIT_FIRST   "-00001-of-"
#define SPLIT_TAIL    15u /* "-00001-of-00003" */

/* --- files ----------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *tail)
{
    size_t bytes = strlen(name), tail_bytes = strlen(tail);
    return bytes > tail_bytes && strcasecmp(name + bytes - tail_bytes, tail) == 0;
}

/* A file that a model begins with. */
static bool is_gguf(const char *name)
{
    if (!ends_with(name, ".gguf") || strcasestr(name, "mmproj"))
        return false;
    const char *split = strstr(name, "-of-");
    return !split || split - name < 6 || strncmp(split - 6, "-00001", 6) == 0 ||
           strspn(split - 5, "0123456789") != 5;
}

/* Bytes of the split parts that begin like `name`, or of all weights in a folder (`name` NULL). */
static uint64_t bytes_sum(const char *folder, const char *name)
{
    const char *split = name ? strstr(name, SPLIT_FIRST) : NULL;
    size_t stem = split ? (size_t)(split - name) + 1 : name ? strlen(name) : 0;
    uint64_t sum = 0;
    DIR *opened = opendir(folder);
    for (const struct dirent *entry; opened && (entry = readdir(opened)) != NULL;) {
        struct stat status;
        bool counts =
            name ? strncmp(entry->d_name, name, stem) == 0 && (split || entry->d_name[stem] == '\0')
                 : ends_with(entry->d_name, ".safetensors") || ends_with(entry->d_name, ".gguf");
        if (counts && fstatat(dirfd(opened), entry->d_name, &status, 0) == 0 &&
            S_ISREG(status.st_mode))
            sum += (uint64_t)status.st_size;
    }
    if (opened)
        closedir(opened);
    return sum;
}

/* The first model file of a folder by name, into `found`. */
static bool gguf_find(const char *folder, char found[PATH_BYTES])
{
    char best[256] = "";
    DIR *opened = opendir(folder);
    for (const struct dirent *entry; opened && (entry = readdir(opened)) != NULL;)
        if (is_gguf(entry->d_name) && (!best[0] || strcmp(entry->d_name, best) < 0))
            snprintf(best, sizeof best, "%s", entry->d_name);
    if (opened)
        closedir(opened);
    return best[0] && snprintf(found, PATH_BYTES, "%s/%s", folder, best) < (int)PATH_BYTES;
}

static char *name_of_file(const char *file)
{
    char *name = must_strdup(file);
    size_t bytes = strlen(name) - strlen(".gguf");
    name[bytes] = '\0';
    if (bytes > SPLIT_TAIL &&
        strncmp(name + bytes - SPLIT_TAIL, SPLIT_FIRST, strlen(SPLIT_FIRST)) == 0)
        name[bytes - SPLIT_TAIL] = '\0';
    return name;
}

/* True if the entry is a model; fills name, path and bytes. */
static bool place_read(const char *folder, const char *entry, struct model_place *place)
{
    char path[PATH_BYTES], inside[PATH_BYTES];
    struct stat status;
    if (entry[0] == '.' ||
        snprintf(path, sizeof path, "%s/%s", folder, entry) >= (int)sizeof path ||
        stat(path, &status) != 0)
        return false;
    place->modified_unix_s = status.st_mtime;
    if (S_ISREG(status.st_mode) && is_gguf(entry)) {
        place->name = name_of_file(entry);
        place->path = must_strdup(path);
        place->bytes = bytes_sum(folder, entry);
        return true;
    }
    if (!S_ISDIR(status.st_mode) ||
        snprintf(inside, sizeof inside, "%s/config.json", path) >= (int)sizeof inside)
        return false;
    bool is_folder = stat(inside, &status) == 0 && S_ISREG(status.st_mode);
    if (!is_folder && !gguf_find(path, inside))
        return false;
    place->name = must_strdup(entry);
    place->path = must_strdup(is_folder ? path : inside);
    place->bytes = bytes_sum(path, is_folder ? NULL : strrchr(inside, '/') + 1);
    return true;
}

static int by_name(const void *one, const void *other)
{
    const struct model_place *a = one, *b = other;
    return strcmp(a->name, b->name);
}

static enum result places_read(const char *path, struct model_folder *folder,
                               struct error_text *error)
{
    DIR *opened = opendir(path);
    if (!opened)
        return error_set(error, RESULT_IO, "--models-dir %.200s: %s", path, strerror(errno));
    folder->models = must_alloc(LIMIT_MODELS, sizeof folder->models[0]);
    enum result result = RESULT_OK;
    for (const struct dirent *entry; result == RESULT_OK && (entry = readdir(opened)) != NULL;) {
        struct model_place place = {0};
        if (model_repository_is_one(entry->d_name)) {
            folder->count += model_repository_read(
                path, entry->d_name, &folder->models[folder->count], LIMIT_MODELS - folder->count);
            continue;
        }
        if (!place_read(path, entry->d_name, &place))
            continue;
        if (folder->count < LIMIT_MODELS) {
            folder->models[folder->count++] = place;
            continue;
        }
        free(place.name);
        free(place.path);
        result = error_set(error, RESULT_TOO_LARGE, "--models-dir %.200s: more than %u models",
                           path, LIMIT_MODELS);
    }
    closedir(opened);
    qsort(folder->models, folder->count, sizeof folder->models[0], by_name);
    for (uint32_t i = 1; result == RESULT_OK && i < folder->count; i++)
        if (strcmp(folder->models[i - 1].name, folder->models[i].name) == 0)
            result = error_set(error, RESULT_INVALID, "--models-dir %.200s: two models '%.100s'",
                               path, folder->models[i].name);
    return result;
}

/* --- settings -------------------------------------------------------------------------------- */

static char *trim(char *text)
{
    while (strchr(" \t\r", *text) && *text)
        text++;
    size_t bytes = strlen(text);
    while (bytes > 0 && strchr(" \t\r\n", text[bytes - 1]))
        text[--bytes] = '\0';
    return text;
}

static struct model_place *place_find(struct model_folder *folder, const char *name)
{
    for (uint32_t i = 0; i < folder->count; i++)
        if (strcmp(folder->models[i].name, name) == 0)
            return &folder->models[i];
    return NULL;
}

static bool truth_parse(const char *text, bool *truth)
{
    *truth = strcmp(text, "true") == 0;
    return *truth || strcmp(text, "false") == 0;
}

static bool setting_take(struct model_place *place, const char *name, const char *value)
{
    if (strcmp(name, "preload") == 0)
        return truth_parse(value, &place->preload);
    if (strcmp(name, "pinned") == 0)
        return truth_parse(value, &place->pinned);
    if (place->setting_count == LIMIT_MODEL_SETTINGS)
        return false;
    if (!place->settings)
        place->settings = must_alloc(LIMIT_MODEL_SETTINGS, sizeof place->settings[0]);
    place->settings[place->setting_count++] =
        (struct model_setting){must_strdup(name), must_strdup(value)};
    return true;
}

static enum result line_take(char *line, uint32_t number, struct model_folder *folder,
                             struct model_place **section, struct error_text *error)
{
    char *text = trim(line);
    size_t bytes = strlen(text);
    if (bytes == 0 || text[0] == '#' || text[0] == ';')
        return RESULT_OK;
    if (text[0] == '[' && text[bytes - 1] == ']') {
        text[bytes - 1] = '\0';
        *section = place_find(folder, trim(text + 1));
        if (*section)
            return RESULT_OK;
        return error_set(error, RESULT_INVALID,
                         SETTINGS_NAME ", line %u: there is no model '%.100s'", number,
                         trim(text + 1));
    }
    char *equals = strchr(text, '=');
    if (!equals || !*section)
        return error_set(error, RESULT_INVALID,
                         SETTINGS_NAME ", line %u: neither [model] nor option = value below one",
                         number);
    *equals = '\0';
    if (!setting_take(*section, trim(text), trim(equals + 1)))
        return error_set(error, RESULT_INVALID,
                         SETTINGS_NAME ", line %u: %.40s cannot be '%.60s', or a section has more "
                                       "than %u options",
                         number, trim(text), trim(equals + 1), LIMIT_MODEL_SETTINGS);
    return RESULT_OK;
}

static enum result settings_read(const char *path, struct model_folder *folder,
                                 struct error_text *error)
{
    char name[PATH_BYTES], line[SETTINGS_LINE];
    struct model_place *section = NULL;
    enum result result = RESULT_OK;
    if (snprintf(name, sizeof name, "%s/" SETTINGS_NAME, path) >= (int)sizeof name)
        return error_set(error, RESULT_TOO_LARGE, "--models-dir: the path is too long");
    FILE *file = fopen(name, "re");
    if (!file)
        return errno == ENOENT ? RESULT_OK
                               : error_set(error, RESULT_IO, "%.200s: %s", name, strerror(errno));
    for (uint32_t number = 1; result == RESULT_OK && fgets(line, sizeof line, file); number++)
        result =
            strlen(line) == sizeof line - 1
                ? error_set(error, RESULT_INVALID, SETTINGS_NAME ", line %u is too long", number)
                : line_take(line, number, folder, &section, error);
    fclose(file);
    return result;
}

enum result model_folder_read(const char *path, struct model_folder *folder,
                              struct error_text *error)
{
    *folder = (struct model_folder){0};
    enum result result = places_read(path, folder, error);
    if (result == RESULT_OK)
        result = settings_read(path, folder, error);
    if (result != RESULT_OK)
        model_folder_fini(folder);
    return result;
}

void model_folder_fini(struct model_folder *folder)
{
    for (uint32_t i = 0; i < folder->count; i++)
        model_place_fini(&folder->models[i]);
    free(folder->models);
    *folder = (struct model_folder){0};
}
