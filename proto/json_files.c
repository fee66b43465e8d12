#include "proto/json_files.h"

#include "proto/limits.h"

enum result json_files_open(int folder_fd, struct json_file *files, size_t count,
                            struct error_text *error)
{
    struct error_text reason;
    enum result result = RESULT_OK;
    for (size_t i = 0; i < count && result == RESULT_OK; i++) {
        result = mapped_file_open(folder_fd, files[i].name, &files[i].file, &reason);
        if (result == RESULT_NOT_FOUND && i > 0) {
            result = RESULT_OK;
            continue;
        }
        if (result == RESULT_OK)
            result = json_value_open(files[i].file.bytes, files[i].file.byte_count,
                                     LIMIT_JSON_FILE_BYTES, files[i].value, &reason);
        if (result != RESULT_OK)
            result = error_set(error, result, "%s: %.180s", files[i].name, reason.text);
    }
    return result;
}

void json_files_close(struct json_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++)
        mapped_file_close(&files[i].file);
}
