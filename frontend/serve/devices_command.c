/*
 * Replaces this process by the worker program, which prints the list of devices.
 *
 * The frontend never opens a driver itself: a broken driver could end it.
 */
#include "frontend/serve/devices_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "frontend/serve/worker/child_process.h"

int devices_command_run(const struct options *options)
{
    char path[PROGRAM_PATH_BYTES];
    char list[] = "--list-devices";
    char text[] = "text";
    char json[] = "json";
    char *const arguments[] = {path, list, options->json ? json : text, NULL};
    struct error_text error;
    if (child_process_find(path, &error) == RESULT_OK) {
        execv(path, arguments);
        (void)error_set(&error, RESULT_IO, "cannot start %.150s: %s", path, strerror(errno));
    }
    fprintf(stderr, "shoal: %s\n", error.text);
    return 1;
}
