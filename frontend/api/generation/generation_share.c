/*
 * Copies for live requests that run, are journalled and end on their own. What belongs to the whole
 * (the body, the format's state, the other prompts) stays with the first.
 */
#include "frontend/api/generation/generation_share.h"
#include "frontend/assets/adapter_set.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/base/shared_bytes.h"

static uint32_t choices_of(const struct prepared_generation *prepared)
{
    return prepared->request.choices > 0 ? prepared->request.choices : 1;
}

uint32_t generation_share_answers(const struct prepared_generation *prepared)
{
    return choices_of(prepared) * (1 + prepared->more_prompt_count);
}

const struct token_list *generation_share_prompt(const struct prepared_generation *prepared,
                                                 uint32_t answer)
{
    uint32_t prompt = answer / choices_of(prepared);
    return prompt == 0 ? &prepared->prompt : &prepared->more_prompts[prompt - 1];
}

/* NULL: nothing to copy; false: out of memory. */
static bool copy(const void *from, size_t bytes, void **to)
{
    *to = NULL;
    if (bytes == 0)
        return true;
    *to = malloc(bytes);
    if (*to)
        memcpy(*to, from, bytes);
    return *to != NULL;
}

enum result generation_share_take(const struct prepared_generation *prepared,
                                  uint32_t context_tokens, uint32_t answer,
                                  struct prepared_generation *own)
{
    const struct generation_request *request = &prepared->request;
    const struct token_list *prompt = generation_share_prompt(prepared, answer);
    const struct forced_tokens *forced = &prepared->forced;
    size_t forced_count =
        (size_t)forced->prefix_count + forced->think_start_count + forced->think_end_count;
    void *ids;
    void *bias;
    void *forced_ids;
    bool good = copy(prompt->ids, prompt->count * sizeof *prompt->ids, &ids);
    good &=
        copy(request->logit_bias, request->logit_bias_count * sizeof *request->logit_bias, &bias);
    good &= copy(forced->ids, forced_count * sizeof *forced->ids, &forced_ids);
    *own = (struct prepared_generation){.request = *request, .forced = *forced};
    own->prompt =
        (struct token_list){.ids = ids, .count = prompt->count, .capacity = prompt->count};
    own->forced.ids = forced_ids;
    if (forced_ids && request->first_token_count > 0)
        own->forced.ids[0] = request->first_tokens[answer % choices_of(prepared)];
    own->images = image_set_share(prepared->images);
    own->request.logit_bias = bias;
    if (!request->prompts) /* a conversation's prompt is scored once */
        own->request.scores_prompt = false;
    own->request.adapter = adapter_share(request->adapter);
    own->request.grammar = shared_bytes_share(request->grammar);
    own->request.dry_breakers = shared_bytes_share(request->dry_breakers);
    own->request.loose_tools = NULL;
    own->request.body = NULL;
    own->request.own = (struct format_state){0};
    own->request.images = (struct request_images){0};
    generation_request_drop_body(&own->request);
    own->request.sampling.seed += answer % choices_of(prepared);
    own->max_new_tokens =
        prepared_generation_room(context_tokens, own->prompt.count, request->max_new_tokens);
    if (good)
        return RESULT_OK;
    prepared_generation_fini(own);
    return RESULT_OUT_OF_MEMORY;
}
