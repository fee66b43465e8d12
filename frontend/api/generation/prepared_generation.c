/*
 * A prepared request owns its request, prompts and forced tokens, and one reference to its images.
 */
#include "frontend/api/generation/prepared_generation.h"

#include <stdlib.h>

uint32_t prepared_generation_room(uint32_t context_tokens, size_t prompt_tokens, uint32_t asked)
{
    uint32_t room = context_tokens - (uint32_t)prompt_tokens;
    return asked > 0 && asked < room ? asked : room;
}

void prepared_generation_fini(struct prepared_generation *prepared)
{
    generation_request_fini(&prepared->request);
    token_list_fini(&prepared->prompt);
    for (uint32_t i = 0; i < prepared->more_prompt_count; i++)
        token_list_fini(&prepared->more_prompts[i]);
    free(prepared->more_prompts);
    free(prepared->forced.ids);
    image_set_release(prepared->images);
    *prepared = (struct prepared_generation){0};
}
