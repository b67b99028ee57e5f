/* Calls of the observers of a run, and their state in a checkpoint. */
#include "base/files.h"
#include "base/json.h"
#include "run/best.h"
#include "run/internal.h"

EITP__PRIVATE int eitp__run_is_held(const eitp_run *run) {
    EITP__EACH_OBSERVER (run, i, holds) {
        if (run->observers[i].holds(run, run->states[i]))
            return 1;
    }
    return 0;
}

EITP__PRIVATE eitp__assessment eitp__run_assess(const eitp_run *run) {
    eitp__assessment worst = EITP__ZERO;
    EITP__EACH_OBSERVER (run, i, assess) {
        eitp__assessment one = EITP__ZERO;
        run->observers[i].assess(run, run->states[i], &one);
        worst = one.verdict > worst.verdict ? one : worst;
    }
    return worst;
}

EITP__PRIVATE int eitp__run_is_good(const eitp_run *run) {
    return eitp__run_assess(run).verdict == EITP__MODEL_GOOD;
}

EITP__PRIVATE void eitp__run_list_kept(const eitp_run *run, int64_t kept[EITP__KEPT_STEPS]) {
    int count = 0;
    EITP__EACH_OBSERVER (run, i, keeps) {
        kept[count++] = run->observers[i].keeps(run, run->states[i]);
    }
    while (count < EITP__KEPT_STEPS)
        kept[count++] = run->report.saved_step;
}

EITP__PRIVATE eitp_status eitp__run_decided(const eitp_run *run, eitp_error *error) {
    if (run->decision.fails.status)
        *error = run->decision.fails;
    return run->decision.fails.status;
}

EITP__PRIVATE void eitp__run_before_save(eitp_run *run) {
    EITP__EACH_OBSERVER (run, i, before_save) {
        run->observers[i].before_save(run, run->states[i]);
    }
}

EITP__PRIVATE void eitp__run_saved(eitp_run *run, int is_counted, double waited) {
    EITP__EACH_OBSERVER (run, i, saved) {
        run->observers[i].saved(run, run->states[i], is_counted, waited);
    }
}

EITP__PRIVATE void eitp__run_save_complete(eitp_run *run, int64_t step) {
    EITP__EACH_OBSERVER (run, i, save_complete) {
        run->observers[i].save_complete(run, run->states[i], step);
    }
}

EITP__PRIVATE void eitp__run_checkpoints_changed(eitp_run *run) {
    /* A save in progress looks like a leftover; observers are notified when it is complete. */
    if (run->saves.save)
        return;
    EITP__EACH_OBSERVER (run, i, checkpoints_changed) {
        run->observers[i].checkpoints_changed(run, run->states[i]);
    }
}

EITP__PRIVATE void eitp__run_end_observers(eitp_run *run) {
    for (int i = EITP__OBSERVER_COUNT - 1; i >= 0; i--) {
        if (run->observers[i].end)
            run->observers[i].end(run, run->states[i]);
    }
}

/* ---- run_state.json ---- */

#define EITP__RUN_STATE_FILE "run_state.json"
#define EITP__RUN_STATE_FORMAT "eitp run"
#define EITP__RUN_STATE_VERSION 1
#define EITP__RUN_STATE_LIMIT ((size_t)1 << 22)

/* ---- Writing ---- */

static void eitp__run_state_format(const eitp_run *run, int is_counted, eitp__buffer *text) {
    eitp__buffer_format(text, "{\n\"format\": \"%s\",\n\"version\": %d", EITP__RUN_STATE_FORMAT,
                        EITP__RUN_STATE_VERSION);
    EITP__EACH_OBSERVER (run, i, write) {
        const size_t before = text->size;
        size_t named;
        eitp__buffer_format(text, ",\n\"%s\": ", run->observers[i].name);
        named = text->size;
        run->observers[i].write(run, run->states[i], is_counted, text);
        text->size = text->size == named ? before : text->size; /* the observer has nothing to write */
    }
    eitp__buffer_add_text(text, "\n}\n");
}

EITP__PRIVATE eitp_status eitp__run_state_write(const eitp_run *run, int is_counted, const char *directory,
                                                eitp_error *error) {
    eitp__buffer text;
    eitp__buffer_init(&text, &run->host);
    eitp__run_state_format(run, is_counted, &text);
    return eitp__store_text(&run->host, directory, EITP__RUN_STATE_FILE, &text, 0, error);
}

/* ---- Reading ---- */

EITP__PRIVATE eitp_status eitp__run_state_open(const eitp_host *host, const char *checkpoint,
                                               eitp_json_document **document, eitp_error *error) {
    return eitp__json_read_in(host, checkpoint, EITP__RUN_STATE_FILE, EITP__RUN_STATE_LIMIT, document, error);
}

static eitp_status eitp__run_state_check(const eitp_json *root, eitp_error *error) {
    const char *format = "";
    int64_t version = 0;
    eitp_status status = eitp__json_get_text(root, "format", &format, error);
    if (!status)
        status = eitp__json_get_integer(root, "version", 0, INT32_MAX, &version, error);
    if (!status && strcmp(format, EITP__RUN_STATE_FORMAT))
        status =
            eitp__fail(error, EITP_ERROR_FORMAT, "'format' must be '%s' (got '%s'); resume from another checkpoint",
                       EITP__RUN_STATE_FORMAT, format);
    if (!status && version != EITP__RUN_STATE_VERSION)
        status = eitp__fail(error, EITP_ERROR_UNSUPPORTED,
                            "unsupported version %lld (supported: %d); resume with the version that wrote it",
                            (long long)version, EITP__RUN_STATE_VERSION);
    return status;
}

static eitp_status eitp__run_state_parse(eitp_run *run, const eitp_json *root, eitp_error *error) {
    eitp_status status = eitp__run_state_check(root, error);
    EITP__EACH_OBSERVER (run, i, read) {
        const eitp__observer *observer = &run->observers[i];
        if (!status)
            status = observer->read(run, run->states[i], eitp_json_member(root, observer->name), error);
    }
    return status;
}

EITP__PRIVATE eitp_status eitp__run_state_read(eitp_run *run, eitp_error *error) {
    eitp_json_document *document;
    eitp_status status = eitp__run_state_open(&run->host, run->checkpoint, &document, error);
    if (!status && document) {
        status = eitp__run_state_parse(run, eitp_json_root(document), error);
        if (status)
            eitp__fail_prefix(error, status, "'%s/%s'", run->checkpoint, EITP__RUN_STATE_FILE);
    }
    eitp_json_release(document);
    return status;
}
