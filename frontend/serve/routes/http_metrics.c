/*
 * Counters of the HTTP server under Shoal's own names; vLLM has none for these.
 *
 * All start at zero and are always present, so that an alert on a rate works from the first scrape.
 */
#include "frontend/serve/routes/http_metrics.h"

void http_metrics_write(const struct http_figures *figures, struct metric_text *text)
{
    const struct http_counters *http = figures->http;
    const struct {
        const char *name;
        const char *help;
        uint64_t value;
    } counters[] = {
        {"shoal_connections_total", "Connections accepted.", http->connections},
        {"shoal_connections_refused_total", "Connections over --max-connections.",
         http->connections_refused},
        {"shoal_tls_handshakes_failed_total", "TLS handshakes refused, broken or too slow.",
         http->handshakes_failed},
        {"shoal_http_requests_total", "HTTP requests of any kind.", http->requests},
        {"shoal_http_requests_malformed_total",
         "Requests that are no HTTP, or over a bound of head or body.", http->requests_malformed},
        {"shoal_http_requests_timed_out_total", "Requests that took too long to arrive.",
         http->requests_too_slow},
        {"shoal_http_requests_foreign_total", "Requests refused because of their Host or Origin.",
         http->requests_foreign},
        {"shoal_http_requests_unauthorized_total", "Requests without a valid API key.",
         http->requests_unauthorized},
        {"shoal_http_requests_over_client_limit_total", "Requests over --max-requests-per-client.",
         http->requests_over_client_limit},
        {"shoal_slow_readers_cut_total", "Streams ended because their reader was too slow.",
         figures->chat->slow_readers_cut},
        {"shoal_deadlines_exceeded_total", "Requests ended by --request-deadline.",
         figures->chat->deadlines_exceeded},
    };
    metric_text_value(text, "shoal_connections", METRIC_GAUGE, "Open client connections.",
                      figures->connections);
    metric_text_value(text, "shoal_unsent_bytes", METRIC_GAUGE,
                      "Replies' bytes held for slow readers.", (double)figures->unsent_bytes);
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++)
        metric_text_value(text, counters[i].name, METRIC_COUNTER, counters[i].help,
                          (double)counters[i].value);
}
