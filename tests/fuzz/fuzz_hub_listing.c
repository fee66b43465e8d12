/*
 * Any bytes as the hub's list of files: reading must end in an error with a text, or in names that
 * stay inside a repository and hashes that are file names; the choice among them is of files that
 * exist. The same bytes as a model's name.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/hub/hub_choice_policy.h"
#include "frontend/hub/hub_listing.h"
#include "proto/limits.h"
#include "proto/must.h"

static void check_choice(const struct hub_listing *listing, const char *quant)
{
    struct hub_choice choice;
    struct error_text error = {""};
    if (hub_choice_make(listing, quant, &choice, &error) != RESULT_OK) {
        must(error.text[0] != '\0' && !choice.files);
        return;
    }
    must(choice.count >= 1 && choice.count <= listing->count);
    for (uint32_t i = 0; i < choice.count; i++)
        must(choice.files[i] < listing->count && (i == 0 || choice.files[i] > choice.files[i - 1]));
    hub_choice_fini(&choice);
}

static void check_file(const struct hub_file *file)
{
    must(file->name[0] != '/' && file->name[0] != '\0' && !strstr(file->name, "//"));
    must(strcmp(file->name, "..") != 0 && strncmp(file->name, "../", 3) != 0 &&
         !strstr(file->name, "/../"));
    must(strlen(file->name) <= LIMIT_HUB_FILE_NAME_BYTES && file->size <= LIMIT_HUB_FILE_BYTES);
    must(strlen(file->hash) == (file->large ? 64 : 40));
    must(strspn(file->hash, "0123456789abcdef") == strlen(file->hash));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hub_listing listing;
    struct hub_name name;
    struct error_text error = {""};
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (hub_listing_read(text, size, &listing, &error) == RESULT_OK) {
        for (uint32_t i = 0; i < listing.count; i++)
            check_file(&listing.files[i]);
        check_choice(&listing, "");
        check_choice(&listing, "Q4_0");
    } else {
        must(error.text[0] != '\0' && listing.count == 0 && !listing.files);
    }
    if (hub_name_parse(text, &name))
        must(!strstr(name.revision, "..") && !strchr(name.org, '/') && name.name[0] != '.');
    hub_listing_fini(&listing);
    free(text);
    return 0;
}
