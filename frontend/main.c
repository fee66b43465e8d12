/*
 * The program `shoal`: finds the command, reads its options, runs it.
 *
 * Exit status: 0 success, 1 the work cannot be done, 2 the command line is wrong.
 */
#include <stdio.h>
#include <string.h>

#include "frontend/base/shoal_version.h"
#include "frontend/serve/chat_command.h"
#include "frontend/serve/device_choice.h"
#include "frontend/serve/devices_command.h"
#include "frontend/serve/generate_command.h"
#include "frontend/serve/serve_command.h"
#include "frontend/serve/settings/document_find.h"
#include "frontend/serve/settings/hub_cache.h"
#include "frontend/serve/settings/mmproj_find.h"
#include "frontend/serve/settings/option_parser.h"
#include "frontend/serve/settings/pooling_find.h"
#include "shm/debug_access.h"

static const struct {
    const char *name;
    enum options_command command;
    int (*run)(const struct options *options);
    const char *help;
} commands[] = {
    {"serve", OPTIONS_SERVE, serve_command_run, "serve a model over HTTP"},
    {"generate", OPTIONS_GENERATE, generate_command_run, "answer one prompt on standard output"},
    {"chat", OPTIONS_CHAT, chat_command_run, "talk to a model in the terminal"},
    {"devices", OPTIONS_DEVICES, devices_command_run, "list the devices of this machine"},
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static void print_usage(FILE *out)
{
    fprintf(out, "usage: shoal COMMAND [options]\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  shoal %-10s %s\n", commands[i].name, commands[i].help);
    options_print_common(out);
    fprintf(out, "\n`shoal COMMAND --help` lists all options of a command.\n");
}

/* Replaces the name of a repository by the path of its checkpoint, served under that name. */
static enum result model_find(struct options *options, char path[HUB_CACHE_PATH_BYTES],
                              struct error_text *error)
{
    if (options->help || !options->model)
        return RESULT_OK;
    enum result result = hub_cache_find(options->hf_cache, options->model, path, error);
    if (result != RESULT_OK || !path[0])
        return result;
    if (options->served_model_names.count == 0)
        options->served_model_names = (struct option_texts){.items = {options->model}, .count = 1};
    options->model = path;
    return RESULT_OK;
}

/* The same for the draft model. */
static enum result draft_find(struct options *options, char path[HUB_CACHE_PATH_BYTES],
                              struct error_text *error)
{
    if (options->help || !options->draft_model)
        return RESULT_OK;
    enum result result = hub_cache_find(options->hf_cache, options->draft_model, path, error);
    if (result == RESULT_OK && path[0])
        options->draft_model = path;
    return result;
}

/* Replaces "none", or no projector file, by what the options then say. */
static void tower_find(struct options *options, char path[MMPROJ_PATH_BYTES])
{
    if (options->mmproj && strcmp(options->mmproj, "none") == 0) {
        options->mmproj = NULL;
    } else if (!options->mmproj && options->model && mmproj_find(options->model, path)) {
        options->mmproj = path;
        options->mmproj_found = true;
    }
}

/* Only servers read documents. */
static enum result documents_choose(enum options_command command, struct options *options,
                                    struct error_text *error)
{
    if (command != OPTIONS_SERVE || options->help)
        return RESULT_OK;
    return document_find(options->documents_text, options->poppler_path, &options->documents,
                         error);
}

/* Only servers give embeddings; the other commands generate text. */
static enum result pooling_choose(enum options_command command, struct options *options,
                                  struct error_text *error)
{
    if (command != OPTIONS_SERVE || options->help || !options->model || options->reranking)
        return RESULT_OK;
    return pooling_find(options->pooling_text, options->model, &options->pooling, error);
}

static int command_run(size_t index, int argc, char *argv[])
{
    struct options options;
    struct error_text error;
    char path[HUB_CACHE_PATH_BYTES], draft_path[HUB_CACHE_PATH_BYTES], mmproj[MMPROJ_PATH_BYTES];
    if (options_parse(commands[index].command, argc, argv, &options, &error) != RESULT_OK ||
        model_find(&options, path, &error) != RESULT_OK ||
        draft_find(&options, draft_path, &error) != RESULT_OK ||
        documents_choose(commands[index].command, &options, &error) != RESULT_OK ||
        pooling_choose(commands[index].command, &options, &error) != RESULT_OK) {
        fprintf(stderr, "shoal %s: %s\n", commands[index].name, error.text);
        return 2;
    }
    tower_find(&options, mmproj);
    if (options.help) {
        options_print_help(commands[index].command, stdout);
        return 0;
    }
    if (!options.allow_debug)
        debug_access_deny();
    log_init("frontend", options.log_level);
    log_set_format(options.log_format);
    options_log(commands[index].command, &options);
    device_choice_resolve(&options);
    return commands[index].run(&options);
}

int main(int argc, char *argv[])
{
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("shoal %s\n", SHOAL_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(stdout);
        return 0;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return command_run(i, argc - 2, argv + 2);
    }
    fprintf(stderr, "shoal: unknown command '%s'\n", argv[1]);
    print_usage(stderr);
    return 2;
}
