/*
 * Settings that this server does not have are left out, rather than written with the value that
 * turns them off.
 */
#include "frontend/api/llama/llama_settings.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

static void sampling_write(const struct sampling_params *sampling, struct text_buffer *out)
{
    const struct {
        const char *name;
        double value;
    } fields[] = {{"temperature", (double)sampling->temperature},
                  {"top_k", sampling->top_k},
                  {"top_p", (double)sampling->top_p},
                  {"min_p", (double)sampling->min_p},
                  {"typical_p", (double)sampling->typical_p},
                  {"top_n_sigma", (double)sampling->top_n_sigma},
                  {"repeat_penalty", (double)sampling->repetition_penalty},
                  {"presence_penalty", (double)sampling->presence_penalty},
                  {"frequency_penalty", (double)sampling->frequency_penalty},
                  {"dynatemp_range", (double)sampling->dynatemp_range},
                  {"dynatemp_exponent", (double)sampling->dynatemp_exponent},
                  {"xtc_probability", (double)sampling->xtc_probability},
                  {"xtc_threshold", (double)sampling->xtc_threshold},
                  {"mirostat", sampling->mirostat},
                  {"mirostat_tau", (double)sampling->mirostat_tau},
                  {"mirostat_eta", (double)sampling->mirostat_eta},
                  {"dry_multiplier", (double)sampling->dry_multiplier},
                  {"dry_base", (double)sampling->dry_base},
                  {"dry_allowed_length", sampling->dry_allowed_length}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        text_buffer_append_format(out, "\"%s\":%.7g,", fields[i].name, fields[i].value);
    text_buffer_append_format(out, "\"repeat_last_n\":%d,",
                              sampling->repetition_context > 0 ? (int)sampling->repetition_context
                                                               : -1);
    text_buffer_append_format(out, "\"dry_penalty_last_n\":%d,",
                              sampling->dry_context > 0 ? (int)sampling->dry_context : -1);
}

static void stops_write(const cJSON *stops, struct text_buffer *out)
{
    const cJSON *list = cJSON_IsArray(stops) ? stops : NULL;
    const cJSON *stop;
    const char *comma = "";
    text_buffer_append_text(out, "\"stop\":[");
    if (cJSON_IsString(stops))
        text_buffer_append_json_string(out, stops->valuestring, strlen(stops->valuestring));
    cJSON_ArrayForEach(stop, list)
    {
        text_buffer_append_text(out, comma);
        text_buffer_append_json_string(out, stop->valuestring, strlen(stop->valuestring));
        comma = ",";
    }
    text_buffer_append_text(out, "]");
}

static void biases_write(const struct generation_request *request, struct text_buffer *out)
{
    text_buffer_append_text(out, "\"logit_bias\":[");
    for (uint32_t i = 0; i < request->logit_bias_count; i++) {
        float bias = request->logit_bias[i].bias;
        text_buffer_append_format(out, "%s{\"token\":%u,\"bias\":", i > 0 ? "," : "",
                                  request->logit_bias[i].token);
        if (bias < -100) /* -infinity, which llama.cpp writes so */
            text_buffer_append_text(out, "null}");
        else
            text_buffer_append_format(out, "%.7g}", (double)bias);
    }
    text_buffer_append_text(out, "]");
}

void llama_settings_write(const struct generation_request *request, const struct llama_state *state,
                          struct text_buffer *out)
{
    text_buffer_append_format(out, "{\"n_predict\":%lld,\"max_tokens\":%lld,\"seed\":%lld,",
                              (long long)state->n_predict, (long long)state->n_predict,
                              (long long)request->sampling.seed);
    sampling_write(&request->sampling, out);
    stops_write(state->stops, out);
    text_buffer_append_format(out, ",\"ignore_eos\":%s,\"stream\":%s,",
                              request->ignore_end ? "true" : "false",
                              request->stream ? "true" : "false");
    biases_write(request, out);
    text_buffer_append_format(
        out,
        ",\"n_probs\":%u,\"n_indent\":%u,\"t_max_predict_ms\":%lld,\"post_sampling_probs\":%s,"
        "\"timings_per_token\":%s}",
        state->n_probs, state->n_indent, (long long)state->predict_ms,
        state->after_sampling ? "true" : "false", state->per_token_times ? "true" : "false");
}

void llama_settings_write_defaults(const struct model_assets *assets, uint64_t seed,
                                   struct text_buffer *out)
{
    struct generation_request request;
    struct api_error error;
    const struct parse_context context = {.assets = assets, .random_seed = seed};
    static const char body[] = "{\"prompt\":\"-\"}";
    if (llama_request_parse(&context, body, sizeof body - 1, &request, &error) != RESULT_OK) {
        text_buffer_append_text(out, "{}");
        return;
    }
    llama_settings_write(&request, request.own.state, out);
    generation_request_fini(&request);
}
