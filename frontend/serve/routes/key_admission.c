/*
 * Refuses a request with 429 if its key has used up a limit (contract in key_admission.h).
 */
#include "frontend/serve/routes/key_admission.h"

#include "frontend/base/monotonic_clock.h"
#include "frontend/http/http_reply.h"
#include "frontend/http/key_usage.h"

bool key_admission_begin(struct key_usage *usage, struct http_exchange *exchange, bool *counted)
{
    static const char *const names[] = {[KEY_OVER_REQUESTS] = "requests a minute",
                                        [KEY_OVER_TOKENS] = "tokens a minute",
                                        [KEY_OVER_IMAGES] = "images a minute",
                                        [KEY_OVER_CONCURRENT] = "requests at a time"};
    struct api_error error;
    uint32_t retry_after_s;
    *counted = false;
    if (!usage)
        return true;
    enum key_verdict verdict =
        key_usage_begin(usage, &exchange->client_key, &exchange->rights.limits,
                        monotonic_clock_ms(), &retry_after_s);
    exchange->usage = usage;
    *counted = verdict == KEY_ADMITTED;
    if (*counted)
        return true;
    (void)api_error_set(&error, RESULT_FULL, 429, "rate_limit_exceeded",
                        "your API key has used its %s; try again in %u s", names[verdict],
                        retry_after_s);
    error.retry_after_s = retry_after_s;
    http_exchange_note(exchange, LOG_TEXT("error", error.code));
    http_reply_error(exchange, &error);
    return false;
}
