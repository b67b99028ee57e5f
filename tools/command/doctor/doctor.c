/* eitp doctor */
#include "doctor/case.h"
#include "options/options.h"
#include "output.h"
#include "records/recorded_run.h"

/* The findings about a run. */
typedef struct diagnosis {
    doctor_finding *findings;
    size_t count;
} diagnosis;

static void apply_rules(diagnosis *d, const doctor_case *c, const char *area, const doctor_rule *rules, size_t count) {
    d->findings = (doctor_finding *)command_resize(d->findings, (d->count + count) * sizeof *d->findings);
    for (size_t i = 0; i < count; i++) {
        doctor_finding f;
        memset(&f, 0, sizeof f);
        f.name = rules[i].name;
        f.area = area;
        f.weight = rules[i].look(c, &f);
        if (f.weight)
            d->findings[d->count++] = f;
        else
            finding_release(&f);
    }
}

/* Sorts by weight, largest first; equal ones stay in the order of the rules. */
static void sort_findings(diagnosis *d) {
    for (size_t i = 1; i < d->count; i++) {
        const doctor_finding moved = d->findings[i];
        size_t at = i;
        for (; at > 0 && d->findings[at - 1].weight < moved.weight; at--)
            d->findings[at] = d->findings[at - 1];
        d->findings[at] = moved;
    }
}

static void diagnose(diagnosis *d, const recorded_run *r) {
    static const struct {
        const char *area;
        const doctor_rule *(*rules)(size_t *count);
    } areas[] = {{"end", doctor_ends}, {"learning", doctor_learning}, {"slowness", doctor_speed}};
    doctor_case c;
    case_open(&c, r);
    memset(d, 0, sizeof *d);
    for (size_t i = 0; i < COMMAND_COUNT(areas); i++) {
        size_t count;
        const doctor_rule *rules = areas[i].rules(&count);
        apply_rules(d, &c, areas[i].area, rules, count);
    }
    sort_findings(d);
    case_close(&c);
}

static void forget(diagnosis *d) {
    for (size_t i = 0; i < d->count; i++)
        finding_release(&d->findings[i]);
    free(d->findings);
}

static int is_well(const diagnosis *d) {
    return !d->count || d->findings[0].weight < DOCTOR_TROUBLE;
}

/* ---- Output ---- */

static void print_missing(const recorded_run *r, text_buffer *t) {
    const char *at = r->missing.data;
    while (at && *at) {
        const size_t size = strcspn(at, "\n");
        char *line = command_format("%.*s", (int)size, at);
        finding_print_line(t, "not examined: ", line);
        free(line);
        at += size + (at[size] == '\n');
    }
}

/* Without trouble, the note about the end follows the verdict; otherwise notes are omitted. */
static void print_diagnosis(const diagnosis *d, const recorded_run *r, text_buffer *t) {
    if (is_well(d))
        text_format(t, "no trouble found\n");
    for (size_t i = 0; i < d->count && is_well(d); i++) {
        const doctor_finding *f = &d->findings[i];
        for (size_t j = 0; j < f->evidence_count && f->weight == DOCTOR_NOTE; j++)
            finding_print_line(t, "  measured: ", f->evidence[j]);
    }
    for (size_t i = 0; i < d->count; i++) {
        if (d->findings[i].weight > DOCTOR_NOTE)
            finding_print(&d->findings[i], t);
    }
    print_missing(r, t);
}

static void write_diagnosis(const diagnosis *d, const recorded_run *r, text_buffer *t) {
    text_format(t, "{");
    text_json_member_string(t, "directory", r->directory);
    text_json_member_string(t, "name", r->name);
    text_json_member_string(t, "state", recorded_state(r));
    text_json_member_integer(t, "step", r->step);
    text_json_name(t, "trouble");
    text_format(t, is_well(d) ? "false" : "true");
    text_json_name(t, "findings");
    text_format(t, "[");
    for (size_t i = 0; i < d->count; i++) {
        text_format(t, i ? ", " : "");
        finding_write(&d->findings[i], t);
    }
    text_format(t, "]}\n");
}

static eitp_status examine(const option_set *o, const char *directory, eitp_error *error) {
    text_buffer t = {NULL, 0, 0};
    recorded_run r;
    eitp_status status = recorded_run_open(directory, &r, error);
    if (!status) {
        diagnosis d;
        diagnose(&d, &r);
        if (options_integer(o, OPTION_JSON)) {
            write_diagnosis(&d, &r, &t);
        } else {
            if (o->positional_count > 1)
                finding_print_line(&t, "==> ", r.directory);
            print_diagnosis(&d, &r, &t);
        }
        output_result(t.data, t.size);
        text_release(&t);
        forget(&d);
    }
    recorded_run_close(&r);
    return status;
}

/* Examines all runs, even if one cannot be read. */
static eitp_status examine_all(const option_set *o, eitp_error *error) {
    eitp_status worst = EITP_OK;
    if (!o->positional_count)
        return command_fail(error, EITP_ERROR_ARGUMENT, "eitp doctor requires the directory of a run");
    for (size_t i = 0; i < o->positional_count; i++) {
        eitp_error failure;
        const eitp_status status = examine(o, o->positional[i], &failure);
        if (!status)
            continue;
        if (worst)
            output_error("%s", error->message);
        *error = failure;
        worst = status;
    }
    return worst;
}

int command_doctor(int count, char **arguments) {
    option_set o;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status = options_read(&o, "doctor", OPTIONS_DOCTOR, count, arguments, &ended, &error);
    if (!status && !ended)
        status = examine_all(&o, &error);
    if (status)
        code = output_fail(&error);
    options_release(&o);
    return code;
}
