/*
 * Chooses files by the rules of the download (frontend/hub/hub_choice_policy.h), so that a name means the same model here as for
 * `shoal pull`.
 */
#include "frontend/serve/models/model_repository.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "frontend/hub/hub_choice_policy.h"
#include "frontend/hub/hub_name.h"
#include "frontend/hub/hub_store.h"
#include "proto/limits.h"
#include "proto/must.h"

#define PATH_BYTES  1536u
#define PLAIN_BYTES (2 * HUB_PART_BYTES + 2)
#define NAME_BYTES  (PLAIN_BYTES + 40)

struct reader {
    struct hub_name name;
    struct hub_repository repository;
    struct hub_listing listing;
    struct model_place *places;
    uint32_t capacity;
    uint32_t count;
};

bool model_repository_is_one(const char *entry)
{
    struct hub_name name;
    return hub_name_from_folder(entry, &name);
}

static void name_give(struct model_place *place, const char *name)
{
    place->settings[place->setting_count++] =
        (struct model_setting){must_strdup("served-model-name"), must_strdup(name)};
}

static bool has_name(const struct reader *reader, const char *name)
{
    for (uint32_t i = 0; i < reader->count; i++)
        if (strcasecmp(reader->places[i].name, name) == 0)
            return true;
    return false;
}

/* Adds the model of this type; "": the one that the name without a type means, which is added first. */
static void place_add(struct reader *reader, const char *quant)
{
    struct hub_choice choice;
    struct error_text error;
    struct stat status;
    char path[PATH_BYTES], plain[PLAIN_BYTES], name[NAME_BYTES], kind[32] = "";
    if (reader->count == reader->capacity ||
        hub_choice_make(&reader->listing, quant, &choice, &error) != RESULT_OK)
        return;
    if (choice.model)
        hub_name_quant(choice.model, kind);
    snprintf(plain, sizeof plain, "%s/%s", reader->name.org, reader->name.name);
    snprintf(name, sizeof name, "%s%s%s", plain, kind[0] ? ":" : "", kind);
    int bytes =
        snprintf(path, sizeof path, "%s/snapshots/%s%s%s", reader->repository.path,
                 reader->listing.commit, choice.model ? "/" : "", choice.model ? choice.model : "");
    if (bytes < (int)sizeof path && stat(path, &status) == 0 && !has_name(reader, name)) {
        struct model_place *place = &reader->places[reader->count++];
        *place = (struct model_place){.name = must_strdup(name),
                                      .path = must_strdup(path),
                                      .modified_unix_s = status.st_mtime};
        place->settings = must_alloc(LIMIT_MODEL_SETTINGS, sizeof place->settings[0]);
        for (uint32_t i = 0; i < choice.count; i++)
            place->bytes += reader->listing.files[choice.files[i]].size;
        name_give(place, name);
        if (!quant[0] && kind[0])
            name_give(place, plain);
    }
    hub_choice_fini(&choice);
}

uint32_t model_repository_read(const char *cache, const char *entry, struct model_place *places,
                               uint32_t capacity)
{
    struct reader reader = {.places = places, .capacity = capacity};
    struct error_text error;
    char commit[HUB_COMMIT_BYTES];
    if (!hub_name_from_folder(entry, &reader.name) ||
        hub_repository_open(cache, &reader.name, false, &reader.repository, &error) != RESULT_OK)
        return 0;
    if (hub_repository_commit(&reader.repository, "main", commit) &&
        hub_snapshot_read(&reader.repository, commit, &reader.listing, &error) == RESULT_OK) {
        place_add(&reader, "");
        for (uint32_t i = 0; i < reader.listing.count; i++) {
            char quant[32] = "";
            const char *file = reader.listing.files[i].name;
            const char *ending = strrchr(file, '.');
            if (ending && strcasecmp(ending, ".gguf") == 0 && !hub_name_is_projector(file))
                hub_name_quant(file, quant);
            if (quant[0])
                place_add(&reader, quant);
        }
        hub_listing_fini(&reader.listing);
    }
    hub_repository_close(&reader.repository);
    return reader.count;
}
