#include "frontend/serve/routes/trace_report.h"

#include "frontend/base/text_buffer.h"
#include "frontend/serve/engine/engine_status.h"
#include "proto/step_trace.h"

static void write_steps(const struct step_trace_copy *trace, struct text_buffer *out)
{
    for (uint32_t i = 0; i < trace->known; i++) {
        const struct traced_step *step = &trace->steps[i];
        text_buffer_append_format(out, "%s[%u,%u,%u,%llu]", i > 0 ? "," : "", step->decode_rows,
                                  step->prompt_rows, step->patch_rows,
                                  (unsigned long long)step->time_us);
    }
}

static void write_cells(const struct step_trace_copy *trace, struct text_buffer *out)
{
    static const char digits[] = "0123456789abcdef";
    char hex[2 * STEP_TRACE_CELLS];
    for (uint32_t i = 0; i < trace->cell_count; i++) {
        hex[2 * i] = digits[trace->cells[i] >> 4];
        hex[2 * i + 1] = digits[trace->cells[i] & 15];
    }
    text_buffer_append(out, hex, 2 * (size_t)trace->cell_count);
}

void trace_report_write(struct chat_engine *engine, struct text_buffer *out)
{
    bool first = true;
    text_buffer_append_text(out, "{\"workers\":[");
    for (uint32_t i = 0; i < engine_status_workers(engine); i++) {
        struct step_trace_copy trace;
        if (!engine_status_look(engine, i, &trace))
            continue;
        text_buffer_append_format(out, "%s{\"worker\":%u,\"step_count\":%llu,\"steps\":[",
                                  first ? "" : ",", i, (unsigned long long)trace.step_count);
        write_steps(&trace, out);
        text_buffer_append_text(out, "],\"kv_map\":\"");
        write_cells(&trace, out);
        text_buffer_append_text(out, "\"}");
        first = false;
    }
    text_buffer_append_text(out, "]}");
}
