/*
 * Publishers put the projector beside the model, often in several types
 * (mmproj-model-f16.gguf, Qwen2.5-VL-3B-mmproj-Q8_0.gguf). The types are equal but for their
 * precision, so one that loses little and is small comes first. The name says nothing about which
 * text model a projector is for: the worker checks that.
 */
#include "frontend/serve/settings/mmproj_find.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/hub/hub_choice_policy.h"

static bool is_projector(const char *name, const char *model)
{
    return hub_name_is_projector(name) && strcmp(name, model) != 0;
}

static bool comes_before(const char *name, const char *other)
{
    return other[0] == '\0' || hub_projector_comes_before(name, other);
}

bool mmproj_find(const char *model, char path[MMPROJ_PATH_BYTES])
{
    struct stat status;
    char folder[MMPROJ_PATH_BYTES], best[256] = "";
    path[0] = '\0';
    if (strlen(model) >= sizeof folder || stat(model, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    const char *slash = strrchr(model, '/');
    const char *name = slash ? slash + 1 : model;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - model) + 1 : 2,
             slash ? model : "./");
    DIR *opened = opendir(folder);
    if (!opened)
        return false;
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        if (is_projector(entry->d_name, name) && comes_before(entry->d_name, best) &&
            fstatat(dirfd(opened), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            snprintf(best, sizeof best, "%s", entry->d_name);
    closedir(opened);
    if (best[0] == '\0' ||
        snprintf(path, MMPROJ_PATH_BYTES, "%s%s", folder, best) >= (int)MMPROJ_PATH_BYTES)
        path[0] = '\0';
    return path[0] != '\0';
}
