/*
 * Fuzzes the readers of a run's records: metrics.jsonl if the first byte is even, otherwise summary.jsonl. A summary of
 * any records can be written, and reading and writing it again gives the same text.
 */
#include "tests/support/everything.h"

#include "records/summary.h"
#include "tests/support/summary_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "fuzz_records: %s\n", what);
        abort();
    }
}

static void require_bounds(const eitp__summary *summary) {
    require(summary->count <= EITP__SUMMARY_KEYS && summary->width >= 1 && summary->step >= 0,
            "a summary out of bounds");
    require(summary->lines.size <= EITP__SUMMARY_LINES, "too many lines");
    require(summary->taken * EITP__SUMMARY_CHUNK <= summary->point_count, "too many points");
}

/* Reads a written summary, and checks that writing it gives the same text. */
static void require_same(const eitp_host *host, const eitp__summary *summary) {
    eitp__summary again;
    eitp__buffer first, second;
    eitp_error error;
    eitp__buffer_init(&first, host);
    eitp__buffer_init(&second, host);
    require(!eitp__summary_init(&again, host, EITP__SUMMARY_ALL_POINTS, &error), "no memory");
    summary_write_(summary, &first);
    require(!eitp__summary_parse(&again, first.data, first.size, &error), "what was written cannot be read");
    require_bounds(&again);
    summary_write_(&again, &second);
    require(first.size == second.size && !memcmp(first.data, second.data, first.size), "it is read back differently");
    eitp__buffer_release(&first);
    eitp__buffer_release(&second);
    eitp__summary_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const eitp_host host = eitp_host_default();
    eitp__summary summary;
    eitp_error error;
    char *text;
    if (!size)
        return 0;
    text = (char *)malloc(size);
    require(text && !eitp__summary_init(&summary, &host, EITP__SUMMARY_ALL_POINTS, &error), "no memory");
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (*data & 1) {
        const eitp_status status = eitp__summary_parse(&summary, text, size - 1, &error);
        require(!status || status == EITP_ERROR_FORMAT, "a failure without a format error");
        require(!status || !summary.count, "a failure that leaves something");
    } else {
        require(eitp__summary_add_lines(&summary, text, size - 1) < size, "more was read than there is");
    }
    require_bounds(&summary);
    require_same(&host, &summary);
    eitp__summary_release(&summary);
    free(text);
    return 0;
}
