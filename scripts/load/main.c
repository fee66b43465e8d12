/*
 * shoal-load: puts load on an OpenAI-compatible server and measures it.
 *
 * Exit status: 0 if the run was made, whatever its results; 3 if a request failed and
 * --fail-on-error was given; 1 if nothing could be measured (no host, no model, no file to write);
 * 2 for a wrong command line.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "proto/must.h"
#include "scripts/load/load_report.h"
#include "scripts/load/load_run.h"

enum { EXIT_NOTHING = 1, EXIT_USAGE = 2, EXIT_FAILED_REQUESTS = 3 };

struct load_main {
    struct load_options options;
    struct server_address address;
    struct chat_dataset dataset;
    char *model; /* if the server named it */
    char *extra;
    char *host; /* for the Host header */
    struct chat_target target;
    struct load_run *run;
};

static enum result prepare(struct load_main *tool, struct error_text *error)
{
    const struct load_options *options = &tool->options;
    enum result result = server_probe_find(options, &tool->address, error);
    if (result == RESULT_OK && !options->model)
        result = server_probe_read_model(options, &tool->address, &tool->model, error);
    if (result == RESULT_OK && options->dataset)
        result = chat_dataset_read(options->dataset, &tool->dataset, error);
    if (result == RESULT_OK && options->extra_body &&
        chat_prompt_check_extra(options->extra_body, &tool->extra) != RESULT_OK)
        result = error_set(error, RESULT_INVALID, "--extra-body is not a JSON object");
    if (result != RESULT_OK)
        return result;
    bool ipv6 = strchr(options->host, ':') != NULL;
    must(asprintf(&tool->host, "%s%s%s:%s", ipv6 ? "[" : "", options->host, ipv6 ? "]" : "",
                  options->port) > 0);
    tool->target = (struct chat_target){.host = tool->host,
                                        .prefix = options->prefix,
                                        .model = options->model ? options->model : tool->model,
                                        .api_key = options->api_key,
                                        .extra_body = tool->extra};
    tool->run = load_run_create(&(struct load_run_config){.options = options,
                                                          .address = &tool->address,
                                                          .target = &tool->target,
                                                          .dataset = &tool->dataset});
    return options->input_tokens ? load_run_calibrate(tool->run, error) : RESULT_OK;
}

static enum result save(const struct load_main *tool, const struct load_summary *summary,
                        struct error_text *error)
{
    const char *path = tool->options.save_result;
    struct load_report_run run = {.options = &tool->options, .model = tool->target.model};
    run.records = load_run_records(tool->run, &run.record_count);
    char date[32];
    time_t now = time(NULL);
    struct tm parts;
    must(localtime_r(&now, &parts) && strftime(date, sizeof date, "%Y%m%d-%H%M%S", &parts) > 0);
    run.date = date;
    struct text_buffer json = {0};
    load_report_write_json(summary, &run, &json);
    must(!json.failed);
    enum result result = RESULT_OK;
    FILE *file = fopen(path, "we");
    bool written = file && fwrite(json.bytes, 1, json.length, file) == json.length;
    if ((file && fclose(file) != 0) || !written)
        result = error_set(error, RESULT_IO, "%s: %s", path, strerror(errno));
    text_buffer_fini(&json);
    return result;
}

/* One connection needs one descriptor. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int measure(struct load_main *tool, struct error_text *error)
{
    struct load_summary *summary = must_alloc(1, sizeof *summary);
    load_run_drive(tool->run);
    size_t count;
    const struct load_record *records = load_run_records(tool->run, &count);
    load_summary_compute(records, count, load_run_duration_s(tool->run), &tool->options, summary);
    load_report_print(summary, &tool->options, stdout);
    uint64_t failed = summary->failed;
    for (size_t i = 0, shown = 0; i < count && shown < 10; i++) {
        if (!load_outcome_is_failure(records[i].outcome))
            continue;
        fprintf(stderr, "request %zu: %s: %s\n", i, load_outcome_name(records[i].outcome),
                records[i].error);
        shown++;
    }
    enum result result = tool->options.save_result ? save(tool, summary, error) : RESULT_OK;
    free(summary);
    if (result != RESULT_OK) {
        fprintf(stderr, "shoal-load: %s\n", error->text);
        return EXIT_NOTHING;
    }
    return failed > 0 && tool->options.fail_on_error ? EXIT_FAILED_REQUESTS : 0;
}

int main(int argc, char *argv[])
{
    struct load_main tool = {0};
    struct error_text error;
    int status = EXIT_NOTHING;
    signal(SIGPIPE, SIG_IGN);
    raise_descriptor_limit();
    if (load_options_parse(argc, argv, &tool.options, &error) != RESULT_OK) {
        fprintf(stderr, "shoal-load: %s; --help lists the options\n", error.text);
        status = EXIT_USAGE;
    } else if (tool.options.help) {
        load_options_print_help(stdout);
        status = 0;
    } else if (prepare(&tool, &error) != RESULT_OK) {
        fprintf(stderr, "shoal-load: %s\n", error.text);
    } else {
        status = measure(&tool, &error);
    }
    load_run_destroy(tool.run);
    chat_dataset_fini(&tool.dataset);
    load_options_fini(&tool.options);
    free(tool.model);
    free(tool.extra);
    free(tool.host);
    return status;
}
