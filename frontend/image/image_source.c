/*
 * Reads an image from the source that a request names, by a table with one row per scheme. A name
 * without a known scheme, such as a bare path, is unsupported.
 */
#include "frontend/image/image_source.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "frontend/image/image_fetch.h"
#include "frontend/image/media_folder.h"

static enum result data_read(const struct media_policy *policy, const char *name,
                             const atomic_bool *cancelled, struct file_bytes *file,
                             struct error_text *error)
{
    (void)cancelled;
    return data_uri_read(name, policy->most_bytes, file, error);
}

/* The path of file:/…, file:///… or file://localhost/…, unescaped; NULL if there is none. */
static char *file_path(const char *uri)
{
    const char *path = uri + strlen("file:");
    if (strncmp(path, "//", 2) == 0) {
        path += 2;
        if (strncasecmp(path, "localhost/", 10) == 0)
            path += 9;
    }
    return path[0] == '/' ? data_uri_unescape(path) : NULL;
}

static enum result file_read(const struct media_policy *policy, const char *name,
                             const atomic_bool *cancelled, struct file_bytes *file,
                             struct error_text *error)
{
    (void)cancelled;
    if (!policy->folder)
        return error_set(error, RESULT_UNSUPPORTED,
                         "file: URLs are not read by this server (--allow-media-path)");
    char *path = file_path(name);
    if (!path)
        return error_set(error, RESULT_INVALID, "its file: URL has no absolute path");
    enum result result = media_folder_read(policy->folder, path, policy->most_bytes, file, error);
    free(path);
    return result;
}

static enum result http_read(const struct media_policy *policy, const char *name,
                             const atomic_bool *cancelled, struct file_bytes *file,
                             struct error_text *error)
{
    if (policy->host_count == 0)
        return error_set(error, RESULT_UNSUPPORTED,
                         "http: and https: URLs are not fetched by this server "
                         "(--allow-media-domain); send the image as a data: URI");
    return image_fetch(policy, name, cancelled, file, error);
}

static const struct scheme {
    const char *name;
    bool is_remote;
    enum result (*read)(const struct media_policy *policy, const char *name,
                        const atomic_bool *cancelled, struct file_bytes *file,
                        struct error_text *error);
} schemes[] = {{"data:", false, data_read},
               {"file:", false, file_read},
               {"http:", true, http_read},
               {"https:", true, http_read}};

static const struct scheme *scheme_find(const char *name)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncasecmp(name, schemes[i].name, strlen(schemes[i].name)) == 0)
            return &schemes[i];
    }
    return NULL;
}

enum result image_source_read(const struct media_policy *policy, enum image_naming naming,
                              const char *name, const atomic_bool *cancelled,
                              struct file_bytes *file, struct error_text *error)
{
    *file = (struct file_bytes){0};
    if (naming == IMAGE_NAMED_BY_BASE64)
        return data_uri_read_base64(name, policy->most_bytes, file, error);
    const struct scheme *scheme = scheme_find(name);
    if (!scheme)
        return error_set(error, RESULT_UNSUPPORTED,
                         "it is named by none of data:, http:, https: and file:");
    return scheme->read(policy, name, cancelled, file, error);
}

bool image_source_is_remote(enum image_naming naming, const char *name)
{
    const struct scheme *scheme = naming == IMAGE_NAMED_BY_URI ? scheme_find(name) : NULL;
    return scheme && scheme->is_remote;
}
