/*
 * One table gives name, kind, place, bounds and help of every option. `--goodput` takes all words
 * up to the next option, as in vLLM's tool; other options take one.
 *
 * https is not supported: the tool measures a server, and one that has a TLS proxy can be measured
 * by plain HTTP on the other side of the proxy.
 */
#include "scripts/load/load_options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proto/must.h"
#include "scripts/load/chat_prompt.h"

enum kind { TEXT, WHOLE, REAL, FLAG, GOODPUT, PERCENTILES };

static const struct option {
    const char *name;
    enum kind kind;
    size_t offset;
    double minimum; /* bounds of numbers */
    double maximum;
    const char *help;
} table[] = {
#define AT(member) offsetof(struct load_options, member)
    {"--base-url", TEXT, AT(base_url), 0, 0, "http://HOST:PORT of the server (required)"},
    {"--model", TEXT, AT(model), 0, 0, "name in the requests (the server's first)"},
    {"--api-key", TEXT, AT(api_key), 0, 0, "sent as a Bearer token"},
    {"--request-rate", REAL, AT(request_rate), 0, INFINITY,
     "open loop: requests a second; inf: all at once"},
    {"--burstiness", REAL, AT(burstiness), 1e-3, INFINITY,
     "shape of the intervals: 1 Poisson, below 1 burstier, inf even (1)"},
    {"--concurrency", WHOLE, AT(concurrency), 1, LOAD_CONCURRENCY,
     "closed loop: number of concurrent streams"},
    {"--num-requests", WHOLE, AT(num_requests), 1, LOAD_REQUESTS,
     "requests to start (100; with --duration no limit)"},
    {"--duration", REAL, AT(duration_s), 0, 1e7, "seconds during which requests are started"},
    {"--input-tokens", WHOLE, AT(input_tokens), 1, CHAT_PROMPT_WORDS,
     "prompt tokens, calibrated with the server's own token counts"},
    {"--input-words", WHOLE, AT(input_words), 1, CHAT_PROMPT_WORDS,
     "words of the random prompts (64)"},
    {"--output-tokens", WHOLE, AT(output_tokens), 1, 1 << 20, "max_tokens of each request (128)"},
    {"--dataset", TEXT, AT(dataset), 0, 0,
     "JSON lines: lists of messages, or objects with messages or prompt"},
    {"--extra-body", TEXT, AT(extra_body), 0, 0, "JSON object: additional fields of every request"},
    {"--seed", WHOLE, AT(seed), 0, 9007199254740992.0, "seed of arrivals, prompts and choices (1)"},
    {"--timeout", REAL, AT(timeout_s), 1e-3, 1e7, "maximum seconds of one request (600)"},
    {"--goodput", GOODPUT, 0, 0, 0, "objectives in ms: ttft:500 tpot:50 e2el:5000"},
    {"--metric-percentiles", PERCENTILES, 0, 0, 0, "percentiles to report (50,90,99)"},
    {"--save-result", TEXT, AT(save_result), 0, 0, "write the results to this JSON file"},
    {"--save-detailed", FLAG, AT(save_detailed), 0, 0, "include every request in the JSON file"},
    {"--fail-on-error", FLAG, AT(fail_on_error), 0, 0, "exit status 3 if a request failed"},
    {"--disconnect-share", REAL, AT(disconnect_share), 0, 1,
     "share of requests that disconnect at a random moment"},
    {"--bad-request-share", REAL, AT(bad_request_share), 0, 1,
     "share of invalid requests, which a server must refuse"},
    {"--help", FLAG, AT(help), 0, 0, "print this list"},
#undef AT
};
#define OPTION_COUNT (sizeof table / sizeof table[0])

void load_options_print_help(FILE *out)
{
    fprintf(out, "usage: shoal-load --base-url URL (--request-rate R | --concurrency N) [...]\n"
                 "Measures streamed chats against an OpenAI-compatible server.\n\n");
    for (size_t i = 0; i < OPTION_COUNT; i++)
        fprintf(out, "  %-22s %s\n", table[i].name, table[i].help);
}

static enum result read_real(const char *words, double *value)
{
    char *end;
    errno = 0;
    *value = strtod(words, &end);
    return end == words || *end != '\0' || isnan(*value) || errno == ERANGE ? RESULT_INVALID
                                                                            : RESULT_OK;
}

static enum result read_percentiles(const char *words, struct load_options *options)
{
    options->percentile_count = 0;
    for (const char *at = words;; at++) {
        char *end;
        double percent = strtod(at, &end);
        if (end == at || !(percent >= 0 && percent <= 100) ||
            options->percentile_count == LOAD_PERCENTILES)
            return RESULT_INVALID;
        options->percentiles[options->percentile_count++] = percent;
        at = end;
        if (*at == '\0')
            return RESULT_OK;
        if (*at != ',')
            return RESULT_INVALID;
    }
}

static enum result read_objective(const char *words, struct load_options *options)
{
    static const char *const names[LOAD_SLO_COUNT] = {"ttft:", "tpot:", "e2el:"};
    for (size_t i = 0; i < LOAD_SLO_COUNT; i++) {
        if (strncmp(words, names[i], 5) != 0)
            continue;
        enum result result = read_real(words + 5, &options->slo_ms[i]);
        return result == RESULT_OK && options->slo_ms[i] < 0 ? RESULT_INVALID : result;
    }
    return RESULT_INVALID;
}

static enum result read_value(const struct option *option, char *words,
                              struct load_options *options)
{
    void *place = (char *)options + option->offset;
    double number;
    if (option->kind == TEXT) {
        memcpy(place, &words, sizeof words);
        return RESULT_OK;
    }
    if (option->kind == PERCENTILES)
        return read_percentiles(words, options);
    if (read_real(words, &number) != RESULT_OK || number < option->minimum ||
        number > option->maximum)
        return RESULT_INVALID;
    if (option->kind == REAL) {
        memcpy(place, &number, sizeof number);
        return RESULT_OK;
    }
    uint64_t whole = (uint64_t)number;
    memcpy(place, &whole, sizeof whole);
    return (double)whole == number ? RESULT_OK : RESULT_INVALID;
}

/* "http://host:port/prefix", with or without a /v1 at the end. */
static enum result read_url(struct load_options *options)
{
    const char *at = options->base_url;
    if (!at || strncmp(at, "http://", 7) != 0)
        return RESULT_INVALID;
    at += 7;
    bool bracketed = *at == '[';
    const char *host = at + bracketed;
    const char *host_end = bracketed ? strchr(host, ']') : host + strcspn(host, ":/");
    if (!host_end || host_end == host)
        return RESULT_INVALID;
    at = host_end + bracketed;
    const char *port = "80";
    size_t port_length = 2;
    if (*at == ':') {
        port = ++at;
        port_length = strspn(at, "0123456789");
        at += port_length;
    }
    if (port_length == 0 || port_length > 5 || (*at != '\0' && *at != '/') ||
        strpbrk(at, " \r\n\t?#"))
        return RESULT_INVALID;
    size_t prefix_length = strlen(at);
    while (prefix_length > 0 && at[prefix_length - 1] == '/')
        prefix_length--;
    if (prefix_length >= 3 && memcmp(at + prefix_length - 3, "/v1", 3) == 0)
        prefix_length -= 3;
    options->host = strndup(host, (size_t)(host_end - host));
    options->port = strndup(port, port_length);
    options->prefix = strndup(at, prefix_length);
    must(options->host && options->port && options->prefix);
    return RESULT_OK;
}

static enum result check(struct load_options *options, struct error_text *error)
{
    if (read_url(options) != RESULT_OK)
        return error_set(error, RESULT_INVALID, "--base-url is needed: http://HOST:PORT");
    if ((options->request_rate > 0) == (options->concurrency > 0))
        return error_set(error, RESULT_INVALID, "give either --request-rate or --concurrency");
    if (options->dataset && (options->input_tokens || options->input_words))
        return error_set(error, RESULT_INVALID, "a data set has its own lengths of prompts");
    if (options->input_tokens && options->input_words)
        return error_set(error, RESULT_INVALID, "give either --input-tokens or --input-words");
    if (isinf(options->request_rate) && options->num_requests == 0)
        return error_set(error, RESULT_INVALID, "an infinite rate needs --num-requests");
    if (options->disconnect_share + options->bad_request_share > 1)
        return error_set(error, RESULT_INVALID, "the shares exceed 1 in total");
    if (options->save_detailed && !options->save_result)
        return error_set(error, RESULT_INVALID, "--save-detailed needs --save-result");
    if (options->api_key && strpbrk(options->api_key, "\r\n"))
        return error_set(error, RESULT_INVALID, "--api-key is one line");
    if (options->input_words == 0)
        options->input_words = 64;
    if (options->num_requests == 0 && options->duration_s == 0)
        options->num_requests = 100;
    if (options->num_requests == 0)
        options->num_requests = LOAD_REQUESTS;
    return RESULT_OK;
}

static const struct option *find(const char *name)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    }
    return NULL;
}

enum result load_options_parse(int argc, char *argv[], struct load_options *options,
                               struct error_text *error)
{
    *options = (struct load_options){.burstiness = 1,
                                     .output_tokens = 128,
                                     .seed = 1,
                                     .timeout_s = 600,
                                     .slo_ms = {-1, -1, -1},
                                     .percentiles = {50, 90, 99},
                                     .percentile_count = 3};
    for (int i = 1; i < argc; i++) {
        const struct option *option = find(argv[i]);
        if (!option)
            return error_set(error, RESULT_INVALID, "unknown option %s", argv[i]);
        if (option->kind == FLAG) {
            *(bool *)((char *)options + option->offset) = true;
            continue;
        }
        if (++i == argc)
            return error_set(error, RESULT_INVALID, "%s needs a value", option->name);
        enum result result;
        if (option->kind == GOODPUT) {
            result = read_objective(argv[i], options);
            while (result == RESULT_OK && i + 1 < argc && strncmp(argv[i + 1], "--", 2) != 0)
                result = read_objective(argv[++i], options);
        } else {
            result = read_value(option, argv[i], options);
        }
        if (result != RESULT_OK)
            return error_set(error, result, "%s: not %s", option->name, argv[i]);
    }
    return options->help ? RESULT_OK : check(options, error);
}

void load_options_fini(struct load_options *options)
{
    free(options->host);
    free(options->port);
    free(options->prefix);
    options->host = options->port = options->prefix = NULL;
}
