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
#include "frontend/serve/hub_commands.h"
#include "frontend/serve/serve_command.h"
#include "frontend/serve/settings/model_files.h"
#include "frontend/serve/settings/option_parser.h"
#include "frontend/serve/show_command.h"
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
    {"run", OPTIONS_RUN, run_command_run,
     "the same, on a free port too; downloads the model if it is not there"},
    {"pull", OPTIONS_PULL, pull_command_run, "download a model into Hugging Face's cache"},
    {"list", OPTIONS_LIST, list_command_run, "list the models of this cache"},
    {"rm", OPTIONS_REMOVE, remove_command_run, "remove a model from it"},
    {"show", OPTIONS_SHOW, show_command_run, "describe a model without loading it"},
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

/* Commands that run the model of --model as it is found on this machine. */
static bool runs_model(enum options_command command)
{
    return command == OPTIONS_SERVE || command == OPTIONS_GENERATE || command == OPTIONS_CHAT;
}

static int command_run(size_t index, int argc, char *argv[])
{
    struct options options;
    struct error_text error;
    struct model_files files;
    enum options_command command = commands[index].command;
    if (options_parse(command, argc, argv, &options, &error) != RESULT_OK ||
        (runs_model(command) && model_files_find(command, &files, &options, &error) != RESULT_OK)) {
        fprintf(stderr, "shoal %s: %s\n", commands[index].name, error.text);
        return 2;
    }
    if (options.help) {
        options_print_help(command, stdout);
        return 0;
    }
    if (!options.allow_debug)
        debug_access_deny();
    log_init("frontend", options.log_level);
    log_set_format(options.log_format);
    options_log(command, &options);
    if (runs_model(command))
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
