/*
 * The cache is shared with Hugging Face's own tools, so where it is depends on the same environment
 * variables as theirs (hub_environment.h). Which file of a repository makes the model is decided
 * among those that are there, by the rules of the download (hub_choice_policy.h).
 */
#include "frontend/serve/settings/hub_cache.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "frontend/hub/hub_choice_policy.h"
#include "frontend/hub/hub_store.h"
#include "frontend/serve/settings/cache_folder.h"
#include "frontend/serve/settings/hub_environment.h"

bool hub_cache_folder(const char *option, char path[HUB_CACHE_PATH_BYTES])
{
    static const struct {
        const char *variable;
        const char *below;
    } places[] = {
        {"HF_HUB_CACHE", ""}, {"HF_HOME", "/hub"}, {"XDG_CACHE_HOME", "/huggingface/hub"}};
    char home[CACHE_FOLDER_BYTES];
    if (option)
        return option[0] &&
               snprintf(path, HUB_CACHE_PATH_BYTES, "%s", option) < (int)HUB_CACHE_PATH_BYTES;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *value = hub_environment_value(places[i].variable);
        if (value)
            return snprintf(path, HUB_CACHE_PATH_BYTES, "%s%s", value, places[i].below) <
                   (int)HUB_CACHE_PATH_BYTES;
    }
    return cache_folder_in_home(".cache/huggingface/hub", home) &&
           snprintf(path, HUB_CACHE_PATH_BYTES, "%s", home) < (int)HUB_CACHE_PATH_BYTES;
}

/* "" for NULL. */
static bool path_write(const struct hub_repository *repository, const struct hub_listing *listing,
                       const char *file, char path[HUB_CACHE_PATH_BYTES])
{
    return snprintf(path, HUB_CACHE_PATH_BYTES, "%s/snapshots/%s%s%s", repository->path,
                    listing->commit, file ? "/" : "", file ? file : "") < (int)HUB_CACHE_PATH_BYTES;
}

static enum result snapshot_find(const struct hub_repository *repository,
                                 const struct hub_name *name, char path[HUB_CACHE_PATH_BYTES],
                                 char projector[HUB_CACHE_PATH_BYTES], struct error_text *error)
{
    struct hub_listing listing;
    struct hub_choice choice;
    char commit[HUB_COMMIT_BYTES];
    if (!hub_repository_commit(repository, name->revision, commit))
        return error_set(error, RESULT_NOT_FOUND, "the revision %.60s is not there",
                         name->revision);
    enum result result = hub_snapshot_read(repository, commit, &listing, error);
    if (result != RESULT_OK)
        return result;
    result = hub_choice_make(&listing, name->quant, &choice, error);
    if (result == RESULT_OK) {
        bool fits = path_write(repository, &listing, choice.model, path);
        if (fits && projector && choice.projector)
            fits = path_write(repository, &listing, choice.projector, projector);
        if (!fits)
            result = error_set(error, RESULT_TOO_LARGE, "its path is too long");
        hub_choice_fini(&choice);
    }
    hub_listing_fini(&listing);
    return result;
}

enum result hub_cache_locate(const char *cache, const struct hub_name *name,
                             char path[HUB_CACHE_PATH_BYTES], char projector[HUB_CACHE_PATH_BYTES],
                             struct error_text *error)
{
    char folder[HUB_CACHE_PATH_BYTES];
    struct hub_repository repository;
    path[0] = '\0';
    if (projector)
        projector[0] = '\0';
    if (!hub_cache_folder(cache, folder))
        return error_set(error, RESULT_NOT_FOUND, "there is no cache directory");
    enum result result = hub_repository_open(folder, name, false, &repository, error);
    if (result != RESULT_OK)
        return result;
    result = snapshot_find(&repository, name, path, projector, error);
    hub_repository_close(&repository);
    if (result != RESULT_OK)
        path[0] = '\0';
    return result;
}

enum result hub_cache_find(const char *cache, const char *model, char path[HUB_CACHE_PATH_BYTES],
                           char projector[HUB_CACHE_PATH_BYTES], struct error_text *error)
{
    struct hub_name name;
    struct stat status;
    struct error_text why;
    path[0] = '\0';
    if (projector)
        projector[0] = '\0';
    if (!hub_name_parse(model, &name) || stat(model, &status) == 0 ||
        hub_cache_locate(cache, &name, path, projector, &why) == RESULT_OK)
        return RESULT_OK;
    return error_set(
        error, RESULT_INVALID,
        "there is no file or folder %.64s, nor is it in Hugging Face's cache: %.60s; to "
        "fetch it: shoal pull %.64s",
        model, why.text, model);
}
