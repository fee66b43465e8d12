/*
 * The JSON files of a checkpoint's folder that one reader needs.
 */
#ifndef SHOAL_PROTO_JSON_FILES_H
#define SHOAL_PROTO_JSON_FILES_H

#include <stddef.h>

#include "proto/json_value.h"
#include "proto/mapped_file.h"
#include "proto/result.h"

struct json_file {
    const char *name;
    struct json_value *value; /* stays as it is if the file is not there */
    struct mapped_file file;  /* zeros; what the value refers to until json_files_close() */
};

/* The first file must be there. The error names the file. json_files_close() must follow in any case. */
enum result json_files_open(int folder_fd, struct json_file *files, size_t count,
                            struct error_text *error) RESULT_CHECKED;
void json_files_close(struct json_file *files, size_t count);

#endif
