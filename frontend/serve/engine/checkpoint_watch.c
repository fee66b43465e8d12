/*
 * A thread sleeps, lists the files again, and keeps the first difference under a mutex. Each change
 * of that state is one line in the log. Files that are put back as they were end the state.
 */
#include "frontend/serve/engine/checkpoint_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/log.h"
#include "proto/must.h"

#define LOOK_EVERY_S 2

struct checkpoint_watch {
    char *record; /* NULL: nothing is watched and there is no thread */
    char *path;
    char *mmproj; /* or NULL */
    struct opened_files files;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t stop;
    bool stopping;
    bool changed;
    bool settled;
    bool overwritten;
    char name[CHECKPOINT_FILE_NAME_BYTES];
    char *last; /* the files of the last look; the thread's */
};

/* What one look finds. */
struct finding {
    bool changed;
    bool settled;
    bool overwritten;
    char name[CHECKPOINT_FILE_NAME_BYTES];
};

/* Called with the mutex held. */
static void note(struct checkpoint_watch *watch, const struct finding *found)
{
    bool changed = found->changed;
    const char *name = found->name;
    if (changed && (!watch->changed || strcmp(watch->name, name) != 0))
        log_error(
            "checkpoint_changed: %s is not the file that was opened; the new one is served once it "
            "is loaded, on SIGHUP or by itself",
            name);
    if (!changed && watch->changed)
        log_info("the checkpoint's files are again those that were opened");
    watch->changed = changed;
    watch->settled = found->settled;
    watch->overwritten = found->overwritten;
    if (changed)
        memcpy(watch->name, name, CHECKPOINT_FILE_NAME_BYTES);
}

static void look(struct checkpoint_watch *watch, struct finding *found)
{
    char *now = NULL;
    *found = (struct finding){0};
    enum result result = checkpoint_files_read(watch->path, watch->mmproj, &now, NULL);
    if (result != RESULT_OUT_OF_MEMORY) {
        const char *files = result == RESULT_OK ? now : "";
        found->changed = checkpoint_files_differ(watch->record, files, found->name);
        found->overwritten = checkpoint_files_overwritten(watch->record, files);
        found->settled = found->changed && watch->last && strcmp(watch->last, files) == 0;
    }
    free(watch->last);
    watch->last = now;
}

static void *watch_main(void *context)
{
    struct checkpoint_watch *watch = context;
    must(pthread_mutex_lock(&watch->mutex) == 0);
    while (!watch->stopping) {
        struct timespec until;
        must(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
        until.tv_sec += LOOK_EVERY_S;
        (void)pthread_cond_timedwait(&watch->stop, &watch->mutex, &until);
        if (watch->stopping)
            break;
        must(pthread_mutex_unlock(&watch->mutex) == 0);
        struct finding found;
        look(watch, &found);
        must(pthread_mutex_lock(&watch->mutex) == 0);
        note(watch, &found);
    }
    must(pthread_mutex_unlock(&watch->mutex) == 0);
    return NULL;
}

struct checkpoint_watch *checkpoint_watch_create(const char *path, const char *mmproj)
{
    struct checkpoint_watch *watch = must_alloc(1, sizeof *watch);
    struct error_text why;
    if (checkpoint_files_read(path, mmproj, &watch->record, NULL) != RESULT_OK)
        return watch; /* opening the model says why */
    if (opened_files_open(path, mmproj, watch->record, &watch->files, &why) != RESULT_OK)
        log_warn("the checkpoint's files are not held open (%s): once they are replaced, a worker "
                 "that ends cannot be started again with them",
                 why.text);
    watch->path = strdup(path);
    watch->mmproj = mmproj ? strdup(mmproj) : NULL;
    must(watch->path != NULL && (watch->mmproj || !mmproj));
    pthread_condattr_t monotonic;
    must(pthread_condattr_init(&monotonic) == 0);
    must(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    must(pthread_cond_init(&watch->stop, &monotonic) == 0);
    pthread_condattr_destroy(&monotonic);
    must(pthread_mutex_init(&watch->mutex, NULL) == 0);
    must(pthread_create(&watch->thread, NULL, watch_main, watch) == 0);
    return watch;
}

void checkpoint_watch_destroy(struct checkpoint_watch *watch)
{
    if (!watch)
        return;
    if (watch->record) {
        must(pthread_mutex_lock(&watch->mutex) == 0);
        watch->stopping = true;
        must(pthread_cond_signal(&watch->stop) == 0);
        must(pthread_mutex_unlock(&watch->mutex) == 0);
        must(pthread_join(watch->thread, NULL) == 0);
        pthread_cond_destroy(&watch->stop);
        pthread_mutex_destroy(&watch->mutex);
    }
    opened_files_close(&watch->files);
    free(watch->path);
    free(watch->mmproj);
    free(watch->record);
    free(watch->last);
    free(watch);
}

const char *checkpoint_watch_record(const struct checkpoint_watch *watch)
{
    return watch->record;
}

const struct opened_files *checkpoint_watch_files(const struct checkpoint_watch *watch)
{
    return watch->files.count > 0 ? &watch->files : NULL;
}

bool checkpoint_watch_changed(struct checkpoint_watch *watch, char name[CHECKPOINT_FILE_NAME_BYTES])
{
    if (!watch->record)
        return false;
    must(pthread_mutex_lock(&watch->mutex) == 0);
    bool changed = watch->changed;
    memcpy(name, watch->name, CHECKPOINT_FILE_NAME_BYTES);
    must(pthread_mutex_unlock(&watch->mutex) == 0);
    return changed;
}

static bool flag_read(struct checkpoint_watch *watch, const bool *flag)
{
    if (!watch->record)
        return false;
    must(pthread_mutex_lock(&watch->mutex) == 0);
    bool value = *flag;
    must(pthread_mutex_unlock(&watch->mutex) == 0);
    return value;
}

bool checkpoint_watch_settled(struct checkpoint_watch *watch)
{
    return flag_read(watch, &watch->settled);
}

bool checkpoint_watch_overwritten(struct checkpoint_watch *watch)
{
    return flag_read(watch, &watch->overwritten);
}
