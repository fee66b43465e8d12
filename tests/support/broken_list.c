/*
 * Reading lists of broken files and writing what they say (the grammar is in broken_list.h).
 */
#include "tests/support/broken_list.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/must.h"

enum { FILES_MAX = 32, CASES_MAX = 512, WORD_BYTES = 64 };
#define TEXT_BUFFER (1u << 17)

struct whole_file {
    char set[WORD_BYTES], name[WORD_BYTES];
    bool safetensors;
    size_t data_bytes;
    char *text;
};

struct broken_list {
    char *bytes; /* of the list, lines ended with NUL */
    uint32_t file_count, case_count;
    struct whole_file files[FILES_MAX];
    struct broken_case cases[CASES_MAX];
};

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("%s cannot be read", path);
    must(fseek(file, 0, SEEK_END) == 0);
    long size = ftell(file);
    must(size > 0 && fseek(file, 0, SEEK_SET) == 0);
    char *bytes = must_alloc((size_t)size + 1, 1);
    must(fread(bytes, 1, (size_t)size, file) == (size_t)size);
    must(fclose(file) == 0);
    return bytes;
}

static void begin_file(struct broken_list *list, const char *line, char *text)
{
    must(list->file_count < FILES_MAX);
    struct whole_file *file = &list->files[list->file_count++];
    int words = sscanf(line, "%% %63s %63s %zu", file->set, file->name, &file->data_bytes);
    must(words >= 2);
    file->safetensors = words == 3;
    file->text = text;
}

static void begin_case(struct broken_list *list, char *line, uint32_t number)
{
    must(list->case_count < CASES_MAX);
    struct broken_case *c = &list->cases[list->case_count++];
    char *space = strchr(line + 2, ' ');
    must(space);
    *space = '\0';
    *c = (struct broken_case){.line = number, .set = line + 2, .file = space + 1};
}

struct broken_list *broken_list_read(const char *path)
{
    struct broken_list *list = must_alloc(1, sizeof *list);
    list->bytes = read_all(path);
    uint32_t number = 0;
    for (char *line = list->bytes, *next; *line; line = next) {
        char *end = strchr(line, '\n');
        must(end);
        *end = '\0';
        next = end + 1;
        number++;
        struct broken_case *c = list->case_count ? &list->cases[list->case_count - 1] : NULL;
        if (line[0] == '%') {
            end = strchr(next, '\n');
            must(end);
            *end = '\0';
            begin_file(list, line, next);
            next = end + 1;
            number++;
        } else if (line[0] == '@') {
            begin_case(list, line, number);
        } else if (c && line[0] == '-') {
            c->find = line + 2;
        } else if (c && line[0] == '+') {
            c->replace = line + 2;
        } else if (c && line[0] == '=') {
            c->words = line + 2;
        } else {
            must(line[0] == '#' || line[0] == '\0');
        }
    }
    return list;
}

void broken_list_destroy(struct broken_list *list)
{
    free(list->bytes);
    free(list);
}

uint32_t broken_list_count(const struct broken_list *list)
{
    return list->case_count;
}

const struct broken_case *broken_list_case(const struct broken_list *list, uint32_t index)
{
    must(index < list->case_count);
    return &list->cases[index];
}

const char *broken_list_set(const struct broken_list *list, uint32_t index)
{
    for (uint32_t i = 0; i < list->file_count; i++) {
        bool first = true;
        for (uint32_t other = 0; other < i; other++)
            first &= strcmp(list->files[other].set, list->files[i].set) != 0;
        if (first && index-- == 0)
            return list->files[i].set;
    }
    return NULL;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void empty_folder(const char *folder)
{
    char path[512];
    DIR *listing = opendir(folder);
    must(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            must(unlink(path) == 0);
    }
    must(closedir(listing) == 0);
}

/* What is in the file once the case has changed it; NULL: as it is. */
struct content {
    char text[TEXT_BUFFER];
    size_t text_bytes;
    uint64_t length;  /* as a safetensors file tells it */
    bool safetensors; /* length and data around the text */
    long cut;         /* bytes kept, where `cuts` */
    bool cuts;
};

static void change(struct content *content, const struct whole_file *file,
                   const struct broken_case *c)
{
    if (!c->find) {
        content->safetensors = false;
        content->text_bytes = strlen(c->replace);
        memcpy(content->text, c->replace, content->text_bytes);
    } else if (strcmp(c->find, "#length") == 0) {
        content->length = strtoull(c->replace, NULL, 10);
    } else if (strcmp(c->find, "#cut") == 0) {
        long whole = (long)(content->text_bytes + (file->safetensors ? 8 + file->data_bytes : 0));
        long change = strtol(c->replace, NULL, 10);
        bool relative = c->replace[0] == '-' || c->replace[0] == '+';
        content->cuts = true;
        content->cut = relative ? whole + change : change;
    } else {
        const char *at = strstr(file->text, c->find);
        if (!at)
            fail_msg("line %u: \"%s\" is not in %s", c->line, c->find, file->name);
        content->text_bytes =
            (size_t)snprintf(content->text, sizeof content->text, "%.*s%s%s",
                             (int)(at - file->text), file->text, c->replace, at + strlen(c->find));
        must(content->text_bytes < sizeof content->text);
        content->length = content->text_bytes;
    }
}

static void write_content(const struct whole_file *file, const struct content *content,
                          const char *path)
{
    FILE *out = fopen(path, "wb");
    must(out);
    if (content->safetensors)
        must(fwrite(&content->length, sizeof content->length, 1, out) == 1);
    must(fwrite(content->text, 1, content->text_bytes, out) == content->text_bytes);
    for (size_t i = 0; content->safetensors && i < file->data_bytes; i++)
        must(fputc(0, out) == 0);
    must(fclose(out) == 0);
    if (content->cuts)
        must(truncate(path, content->cut) == 0);
}

static void write_file(const struct whole_file *file, const struct broken_case *c,
                       const char *folder)
{
    static struct content content;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file->name);
    content.text_bytes = strlen(file->text);
    must(content.text_bytes < sizeof content.text);
    memcpy(content.text, file->text, content.text_bytes + 1);
    content.length = content.text_bytes;
    content.safetensors = file->safetensors;
    content.cuts = false;
    if (c && !c->find && !c->replace)
        return;
    if (c)
        change(&content, file, c);
    write_content(file, &content, path);
}

static void write_files(const struct broken_list *list, const char *set,
                        const struct broken_case *c, const char *folder)
{
    bool changed = !c;
    empty_folder(folder);
    for (uint32_t i = 0; i < list->file_count; i++) {
        const struct whole_file *file = &list->files[i];
        if (strcmp(file->set, set) != 0)
            continue;
        bool mine = c && strcmp(file->name, c->file) == 0;
        write_file(file, mine ? c : NULL, folder);
        changed |= mine;
    }
    if (!changed)
        fail_msg("line %u: set %s has no %s", c->line, set, c->file);
}

void broken_list_write_set(const struct broken_list *list, const char *set, const char *folder)
{
    write_files(list, set, NULL, folder);
}

void broken_list_write_case(const struct broken_list *list, const struct broken_case *c,
                            const char *folder)
{
    write_files(list, c->set, c, folder);
}
