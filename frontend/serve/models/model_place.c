/*
 * Owner of a place's strings (contract in model_place.h).
 */
#include "frontend/serve/models/model_place.h"

#include <stdlib.h>

void model_place_fini(struct model_place *place)
{
    for (uint32_t i = 0; i < place->setting_count; i++) {
        free(place->settings[i].name);
        free(place->settings[i].value);
    }
    free(place->settings);
    free(place->name);
    free(place->path);
    *place = (struct model_place){0};
}
