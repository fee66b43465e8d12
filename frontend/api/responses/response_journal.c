/*
 * One thread writes what ended, so that the event loop never waits for a disk; an unfinished
 * response is written by the thread that prepares it, before its client gets the id.
 *
 * The mutex guards the queue and is held while a file gets or changes its final name: hiding a
 * response whose file is being written hides that file too. It is never held while a source is
 * encoded or released, which take the store's lock.
 *
 * Nothing is written while the directory is another server's: writers of unfinished responses wait,
 * and so does the thread, with its queue. What is hidden or removed then is queued too, for the case
 * that the directory comes back; a successor evicts by itself and learns of deletions only.
 */
#include "frontend/api/responses/response_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/limits.h"
#include "proto/log.h"
#include "proto/must.h"

#define NAME_BYTES      (RESPONSE_ID_BYTES + 16)
#define SEND_TIMEOUT_S  10 /* of one piece of a message to a successor that does not read */
#define RETURN_TRIES    50 /* for the lock of a successor that was killed */
#define RETURN_PAUSE_US 20000u

static const char shown_suffix[] = ".response";
static const char hidden_suffix[] = ".hidden";
static const char unfinished_suffix[] = ".tmp";
static const char lock_name[] = "lock";

enum job_kind { JOB_WRITE, JOB_HIDE, JOB_REMOVE, JOB_WITHDRAW };

enum journal_mode { MODE_OWN, MODE_WAITING, MODE_LEFT, MODE_FORWARDING };

struct job {
    struct job *next;
    enum job_kind kind;
    struct response_journal_source source; /* of JOB_WRITE */
    bool hidden;
    char id[RESPONSE_ID_BYTES];
};

struct response_journal {
    int directory;
    int lock_file; /* -1: not in MODE_OWN */
    int channel;   /* to a successor, or -1 */
    enum journal_mode mode;
    bool leaving;              /* MODE_OWN, and the thread is to give the directory up */
    uint32_t writers;          /* in MODE_OWN or MODE_FORWARDING, besides the thread */
    pthread_mutex_t send_lock; /* one message at a time */
    pthread_mutex_t mutex;
    pthread_cond_t work;
    pthread_cond_t changed; /* the mode */
    struct job *first;
    struct job **end;
    struct job *current; /* being written */
    bool stopping;
    bool told; /* of a failure, and no write has succeeded since */
    struct response_journal_figures figures;
    pthread_t thread;
};

static void lock(struct response_journal *journal)
{
    must(pthread_mutex_lock(&journal->mutex) == 0);
}

static void unlock(struct response_journal *journal)
{
    must(pthread_mutex_unlock(&journal->mutex) == 0);
}

/* Under the lock: nothing can be written or sent now. */
static bool is_stalled(const struct response_journal *journal)
{
    return journal->mode == MODE_WAITING || journal->mode == MODE_LEFT;
}

static void name_write(char name[NAME_BYTES], const char *id, const char *suffix)
{
    int bytes = snprintf(name, NAME_BYTES, "%s%s", id, suffix);
    must(bytes > 0 && (unsigned)bytes < NAME_BYTES);
}

/* --- writing --------------------------------------------------------------------------------- */

static bool bytes_write(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t written = write(fd, bytes, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        bytes += written;
        count -= (size_t)written;
    }
    return true;
}

/* Writes and syncs a file without its final name. Returns 0 or errno. */
static int unfinished_write(const struct response_journal *journal, const char *name,
                            const struct text_buffer *bytes)
{
    int fd = openat(journal->directory, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                    0600);
    if (fd < 0)
        return errno;
    errno = 0;
    bool good = bytes_write(fd, bytes->bytes, bytes->length) && fsync(fd) == 0;
    int error = good ? 0 : errno ? errno : EIO;
    if (close(fd) != 0 && error == 0)
        error = errno;
    return error;
}

/* Under the lock. */
static void outcome_count(struct response_journal *journal, int error)
{
    if (error == 0) {
        journal->figures.written++;
        if (journal->told)
            log_info("stored responses are written to --state-dir again");
        journal->told = false;
        return;
    }
    journal->figures.failed++;
    if (!journal->told)
        log_warn("a stored response cannot be written to --state-dir and is in memory only: %s",
                 strerror(error));
    journal->told = true;
}

/* --- to a successor -------------------------------------------------------------------------- */

static bool send_all(int channel, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = send(channel, bytes, count, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes += sent;
        count -= (size_t)sent;
    }
    return true;
}

/* Waits until the successor reads, at most SEND_TIMEOUT_S. Returns 0 or errno. */
static int message_send(struct response_journal *journal, char kind, const char *bytes,
                        size_t count)
{
    char head[RESPONSE_MESSAGE_HEAD] = {kind, (char)(count & 255), (char)(count >> 8 & 255),
                                        (char)(count >> 16 & 255), (char)(count >> 24 & 255)};
    if (count > UINT32_MAX)
        return EMSGSIZE;
    must(pthread_mutex_lock(&journal->send_lock) == 0);
    errno = EPIPE;
    bool good = journal->channel >= 0 && send_all(journal->channel, head, sizeof head) &&
                send_all(journal->channel, bytes, count);
    int error = good ? 0 : errno;
    if (!good && journal->channel >= 0) { /* half a message cannot be continued */
        close(journal->channel);
        journal->channel = -1;
    }
    must(pthread_mutex_unlock(&journal->send_lock) == 0);
    return error;
}

/* `hidden` is read when the file gets its name, under the lock. */
static bool file_write(struct response_journal *journal, const char *id, const bool *hidden,
                       const struct text_buffer *bytes)
{
    char unfinished[NAME_BYTES], final[NAME_BYTES];
    lock(journal);
    bool forwards = journal->mode == MODE_FORWARDING;
    unlock(journal);
    if (forwards) {
        int failed = bytes->failed ? ENOMEM
                                   : message_send(journal, RESPONSE_MESSAGE_RESPONSE, bytes->bytes,
                                                  bytes->length);
        lock(journal);
        outcome_count(journal, failed);
        unlock(journal);
        return failed == 0;
    }
    name_write(unfinished, id, unfinished_suffix);
    int error = bytes->failed ? ENOMEM : unfinished_write(journal, unfinished, bytes);
    lock(journal);
    name_write(final, id, *hidden ? hidden_suffix : shown_suffix);
    if (error == 0 && renameat(journal->directory, unfinished, journal->directory, final) != 0)
        error = errno;
    outcome_count(journal, error);
    unlock(journal);
    if (error == 0)
        (void)fsync(journal->directory);
    else
        (void)unlinkat(journal->directory, unfinished, 0);
    return error == 0;
}

bool response_journal_write(struct response_journal *journal, const char *id,
                            const struct text_buffer *bytes)
{
    const bool hidden = false;
    lock(journal);
    while (is_stalled(journal) && !journal->stopping)
        must(pthread_cond_wait(&journal->changed, &journal->mutex) == 0);
    if (is_stalled(journal)) {
        unlock(journal);
        return false;
    }
    journal->writers++;
    unlock(journal);
    bool written = file_write(journal, id, &hidden, bytes);
    lock(journal);
    journal->writers--;
    must(pthread_cond_signal(&journal->work) == 0);
    unlock(journal);
    return written;
}

/* Under the lock. */
static void job_add(struct response_journal *journal, enum job_kind kind, const char *id,
                    const struct response_journal_source *source)
{
    struct job *job = must_alloc(1, sizeof *job);
    job->kind = kind;
    if (source)
        job->source = *source;
    strcpy(job->id, id);
    *journal->end = job;
    journal->end = &job->next;
    must(pthread_cond_signal(&journal->work) == 0);
}

void response_journal_write_later(struct response_journal *journal, const char *id,
                                  const struct response_journal_source *source)
{
    lock(journal);
    job_add(journal, JOB_WRITE, id, source);
    unlock(journal);
}

/* Under the lock, in MODE_OWN. */
static void file_hide(struct response_journal *journal, const char *id)
{
    char shown[NAME_BYTES], hidden[NAME_BYTES];
    name_write(shown, id, shown_suffix);
    name_write(hidden, id, hidden_suffix);
    for (struct job *job = journal->first; job; job = job->next)
        job->hidden |= strcmp(job->id, id) == 0;
    if (journal->current && strcmp(journal->current->id, id) == 0)
        journal->current->hidden = true;
    (void)renameat(journal->directory, shown, journal->directory, hidden);
}

static void file_remove(struct response_journal *journal, const char *id)
{
    const char *const suffixes[] = {shown_suffix, hidden_suffix};
    char name[NAME_BYTES];
    for (size_t i = 0; i < 2; i++) {
        name_write(name, id, suffixes[i]);
        (void)unlinkat(journal->directory, name, 0);
    }
}

void response_journal_hide(struct response_journal *journal, const char *id)
{
    lock(journal);
    if (journal->mode == MODE_OWN)
        file_hide(journal, id);
    else if (journal->mode == MODE_LEFT)
        job_add(journal, JOB_HIDE, id, NULL);
    unlock(journal);
}

void response_journal_remove(struct response_journal *journal, const char *id)
{
    lock(journal);
    if (journal->mode == MODE_OWN)
        file_remove(journal, id);
    else if (journal->mode == MODE_LEFT)
        job_add(journal, JOB_REMOVE, id, NULL);
    unlock(journal);
}

void response_journal_withdraw(struct response_journal *journal, const char *id)
{
    lock(journal);
    if (journal->mode == MODE_LEFT || journal->mode == MODE_FORWARDING)
        job_add(journal, JOB_WITHDRAW, id, NULL);
    unlock(journal);
}

struct response_journal_figures response_journal_figures(struct response_journal *journal)
{
    lock(journal);
    struct response_journal_figures figures = journal->figures;
    unlock(journal);
    return figures;
}

static void job_run(struct response_journal *journal, struct job *job)
{
    struct text_buffer bytes = {0};
    lock(journal);
    bool own = journal->mode == MODE_OWN;
    if (own && job->kind == JOB_HIDE)
        file_hide(journal, job->id);
    if (own && job->kind == JOB_REMOVE)
        file_remove(journal, job->id);
    unlock(journal);
    if (!own && job->kind == JOB_WITHDRAW)
        (void)message_send(journal, RESPONSE_MESSAGE_WITHDRAW, job->id, strlen(job->id));
    if (job->kind != JOB_WRITE)
        return;
    job->source.encode(job->source.context, &bytes);
    (void)file_write(journal, job->id, &job->hidden, &bytes);
    text_buffer_fini(&bytes);
}

/* Under the lock: everything is written. */
static void directory_leave(struct response_journal *journal)
{
    journal->leaving = false;
    journal->mode = MODE_LEFT;
    close(journal->lock_file);
    journal->lock_file = -1;
    unlock(journal);
    (void)message_send(journal, RESPONSE_MESSAGE_LEAVE, "", 0); /* a failure ends the channel */
    lock(journal);
}

/* Under the lock; waits for it. NULL: the thread is to end. */
static struct job *job_take(struct response_journal *journal)
{
    for (;;) {
        struct job *job = journal->first;
        if (job && (!is_stalled(journal) || journal->stopping)) {
            journal->first = job->next;
            if (!journal->first)
                journal->end = &journal->first;
            return job;
        }
        if (!job && journal->stopping)
            return NULL;
        if (!job && journal->leaving && journal->writers == 0)
            directory_leave(journal);
        else
            must(pthread_cond_wait(&journal->work, &journal->mutex) == 0);
    }
}

static void *thread_main(void *context)
{
    struct response_journal *journal = context;
    struct job *job;
    lock(journal);
    while ((job = job_take(journal))) {
        bool lost = is_stalled(journal); /* this server ends, and the directory is another's */
        journal->current = job;
        unlock(journal);
        if (!lost)
            job_run(journal, job);
        lock(journal);
        journal->current = NULL;
        unlock(journal);
        if (job->kind == JOB_WRITE)
            job->source.release(job->source.context);
        free(job);
        lock(journal);
    }
    unlock(journal);
    return NULL;
}

/* --- the directory --------------------------------------------------------------------------- */

static enum result directory_open(const char *path, int *directory, struct error_text *error)
{
    struct stat facts;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return error_set(error, RESULT_IO, "--state-dir %s cannot be created: %s", path,
                         strerror(errno));
    *directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*directory < 0 || fstat(*directory, &facts) != 0)
        return error_set(error, RESULT_IO, "--state-dir %s cannot be opened: %s", path,
                         strerror(errno));
    if (facts.st_uid != geteuid())
        return error_set(error, RESULT_INVALID,
                         "--state-dir %s belongs to user %u, not to user %u of this process", path,
                         (unsigned)facts.st_uid, (unsigned)geteuid());
    if (facts.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(error, RESULT_INVALID,
                         "--state-dir %s is writable by other users (mode %04o); use 0700", path,
                         (unsigned)facts.st_mode & 07777u);
    return RESULT_OK;
}

/* A killed server's lock is gone with its process. */
static enum result directory_lock(const char *path, int directory, int *lock_file,
                                  struct error_text *error)
{
    *lock_file = openat(directory, lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (*lock_file < 0)
        return error_set(error, RESULT_IO, "--state-dir %s cannot be written to: %s", path,
                         strerror(errno));
    if (flock(*lock_file, LOCK_EX | LOCK_NB) != 0)
        return error_set(error, RESULT_INVALID, "--state-dir %s is used by another server", path);
    return RESULT_OK;
}

static enum result journal_open(const char *path, enum journal_mode mode,
                                struct response_journal **journal, struct error_text *error)
{
    int directory = -1, lock_file = -1;
    enum result result = directory_open(path, &directory, error);
    if (result == RESULT_OK && mode == MODE_OWN)
        result = directory_lock(path, directory, &lock_file, error);
    if (result != RESULT_OK) {
        if (lock_file >= 0)
            close(lock_file);
        if (directory >= 0)
            close(directory);
        return result;
    }
    struct response_journal *made = must_alloc(1, sizeof *made);
    made->directory = directory;
    made->lock_file = lock_file;
    made->channel = -1;
    made->mode = mode;
    made->end = &made->first;
    must(pthread_mutex_init(&made->mutex, NULL) == 0);
    must(pthread_mutex_init(&made->send_lock, NULL) == 0);
    must(pthread_cond_init(&made->work, NULL) == 0);
    must(pthread_cond_init(&made->changed, NULL) == 0);
    must(pthread_create(&made->thread, NULL, thread_main, made) == 0);
    *journal = made;
    return RESULT_OK;
}

enum result response_journal_open(const char *path, struct response_journal **journal,
                                  struct error_text *error)
{
    return journal_open(path, MODE_OWN, journal, error);
}

/* --- from one server to the next --------------------------------------------------------------- */

enum result response_journal_open_waiting(const char *path, struct response_journal **journal,
                                          struct error_text *error)
{
    return journal_open(path, MODE_WAITING, journal, error);
}

/* Under the lock. */
static void mode_set(struct response_journal *journal, enum journal_mode mode)
{
    journal->mode = mode;
    must(pthread_cond_broadcast(&journal->changed) == 0);
    must(pthread_cond_signal(&journal->work) == 0);
}

enum result response_journal_take(struct response_journal *journal, struct error_text *error)
{
    int lock_file = -1;
    enum result result = directory_lock("", journal->directory, &lock_file, error);
    if (result != RESULT_OK) {
        if (lock_file >= 0)
            close(lock_file);
        return result;
    }
    lock(journal);
    journal->lock_file = lock_file;
    mode_set(journal, MODE_OWN);
    unlock(journal);
    return RESULT_OK;
}

void response_journal_leave(struct response_journal *journal, int channel)
{
    const struct timeval timeout = {.tv_sec = SEND_TIMEOUT_S};
    (void)setsockopt(channel, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
    lock(journal);
    must(journal->mode == MODE_OWN && journal->channel < 0);
    journal->channel = channel;
    journal->leaving = true;
    must(pthread_cond_signal(&journal->work) == 0);
    unlock(journal);
}

void response_journal_forward(struct response_journal *journal)
{
    lock(journal);
    if (journal->mode == MODE_LEFT)
        mode_set(journal, MODE_FORWARDING);
    unlock(journal);
}

static void channel_close(struct response_journal *journal)
{
    must(pthread_mutex_lock(&journal->send_lock) == 0);
    if (journal->channel >= 0)
        close(journal->channel);
    journal->channel = -1;
    must(pthread_mutex_unlock(&journal->send_lock) == 0);
}

/* The lock of a successor is gone a moment after its process was killed. */
void response_journal_return(struct response_journal *journal)
{
    struct error_text error = {""};
    lock(journal);
    journal->leaving = false;
    bool left = journal->mode == MODE_LEFT;
    bool forwards = journal->mode == MODE_FORWARDING;
    unlock(journal);
    if (!forwards)
        channel_close(journal);
    if (!left)
        return;
    for (int tries = 0; response_journal_take(journal, &error) != RESULT_OK; tries++) {
        if (tries == RETURN_TRIES) {
            log_error("stored responses are in memory only from now on: %s", error.text);
            return;
        }
        usleep(RETURN_PAUSE_US);
    }
}

bool response_journal_is_left(struct response_journal *journal)
{
    lock(journal);
    bool left = journal->leaving || journal->mode == MODE_LEFT || journal->mode == MODE_FORWARDING;
    unlock(journal);
    return left;
}

int response_journal_directory(const struct response_journal *journal)
{
    return journal ? journal->directory : -1;
}

void response_journal_close(struct response_journal *journal)
{
    if (!journal)
        return;
    lock(journal);
    journal->stopping = true;
    must(pthread_cond_signal(&journal->work) == 0);
    must(pthread_cond_broadcast(&journal->changed) == 0);
    unlock(journal);
    must(pthread_join(journal->thread, NULL) == 0);
    must(pthread_cond_destroy(&journal->work) == 0);
    must(pthread_cond_destroy(&journal->changed) == 0);
    must(pthread_mutex_destroy(&journal->mutex) == 0);
    must(pthread_mutex_destroy(&journal->send_lock) == 0);
    if (journal->channel >= 0)
        close(journal->channel); /* its end tells the successor that nothing follows */
    if (journal->lock_file >= 0)
        close(journal->lock_file);
    close(journal->directory);
    free(journal);
}

/* --- at start -------------------------------------------------------------------------------- */

/* Splits <id><suffix>. False: the journal does not write such names. */
static bool name_read(const char *name, struct response_journal_entry *entry, bool *unfinished)
{
    const char *const suffixes[] = {shown_suffix, hidden_suffix, unfinished_suffix};
    const size_t prefix = sizeof RESPONSE_ID_PREFIX - 1;
    if (strncmp(name, RESPONSE_ID_PREFIX, prefix) != 0)
        return false;
    size_t bytes = prefix + strspn(name + prefix, "0123456789abcdef");
    if (bytes == prefix || bytes >= RESPONSE_ID_BYTES)
        return false;
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(name + bytes, suffixes[i]) != 0)
            continue;
        memcpy(entry->id, name, bytes);
        entry->id[bytes] = '\0';
        entry->hidden = i == 1;
        *unfinished = i == 2;
        return true;
    }
    return false;
}

struct response_journal_entry *response_journal_list(struct response_journal *journal,
                                                     size_t *count)
{
    size_t capacity = 64;
    struct response_journal_entry *list = must_alloc(capacity, sizeof *list);
    *count = 0;
    int fd = openat(journal->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *found;
    while (directory && (found = readdir(directory))) {
        struct response_journal_entry entry = {0};
        struct stat facts;
        bool unfinished;
        if (!name_read(found->d_name, &entry, &unfinished) ||
            fstatat(journal->directory, found->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (unfinished) {
            (void)unlinkat(journal->directory, found->d_name, 0);
            continue;
        }
        entry.bytes = facts.st_size > 0 ? (uint64_t)facts.st_size : 0;
        entry.changed_ns = (int64_t)facts.st_mtim.tv_sec * 1000000000 + facts.st_mtim.tv_nsec;
        if (*count == capacity) {
            capacity *= 2;
            list = realloc(list, capacity * sizeof *list);
            must(list != NULL);
        }
        list[(*count)++] = entry;
    }
    if (directory)
        closedir(directory);
    else
        log_warn("--state-dir cannot be listed: %s", strerror(errno));
    return list;
}

static enum result file_read(int fd, uint64_t size, struct text_buffer *bytes)
{
    char part[65536];
    while (bytes->length < size) {
        uint64_t left = size - bytes->length;
        ssize_t count = read(fd, part, left < sizeof part ? left : sizeof part);
        if (count == 0)
            break;
        if (count < 0 && errno != EINTR)
            return RESULT_IO;
        if (count > 0)
            text_buffer_append(bytes, part, (size_t)count);
    }
    return bytes->failed ? RESULT_OUT_OF_MEMORY : RESULT_OK;
}

enum result response_journal_read(struct response_journal *journal,
                                  const struct response_journal_entry *entry,
                                  struct text_buffer *bytes, struct error_text *error)
{
    char name[NAME_BYTES];
    struct stat facts;
    name_write(name, entry->id, entry->hidden ? hidden_suffix : shown_suffix);
    int fd = openat(journal->directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, RESULT_IO, "it cannot be opened: %s", strerror(errno));
    enum result result = RESULT_OK;
    if (fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode))
        result = error_set(error, RESULT_UNSUPPORTED, "it is not a regular file");
    else if (facts.st_uid != geteuid())
        result =
            error_set(error, RESULT_UNSUPPORTED, "it belongs to user %u", (unsigned)facts.st_uid);
    if (result == RESULT_OK) {
        result = file_read(fd, entry->bytes, bytes);
        if (result != RESULT_OK)
            (void)error_set(error, result, "it cannot be read: %s", result_name(result));
    }
    close(fd);
    return result;
}
