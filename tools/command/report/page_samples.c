#include "report/page.h"

enum { MOST_SHOWN = 12, MOST_TEXT = 2048 }; /* evaluations, and bytes of a text sample */

static void add_sample(page *p, const eitp_json *sample) {
    const eitp_json *prompt = eitp_json_member(sample, "prompt"), *text = eitp_json_member(sample, "text");
    if (!text || text->kind != EITP_JSON_STRING)
        return;
    text_format(&p->text, "<pre><b>");
    if (prompt && prompt->kind == EITP_JSON_STRING)
        markup_short(&p->text, prompt->text, prompt->text_size, MOST_TEXT);
    text_format(&p->text, "</b>");
    markup_short(&p->text, text->text, text->text_size, MOST_TEXT);
    text_format(&p->text, "</pre>\n");
}

static void add_samples(page *p, const eitp_json *evaluation, int is_open) {
    const eitp_json *samples = eitp_json_member(evaluation, "samples");
    int left = 8; /* prompts of a run */
    text_format(&p->text, "<details%s><summary>After step %.0f, validation loss %s</summary>\n", is_open ? " open" : "",
                recorded_number(evaluation, "step"),
                chart_format_value(CHART_NUMBER, recorded_number(evaluation, "val_loss"), 4).text);
    for (const eitp_json *sample = recorded_items(samples); sample && left > 0; sample = sample->next, left--)
        add_sample(p, sample);
    text_format(&p->text, "</details>\n");
}

void page_add_samples(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        const run_details *d = &p->runs[i].details;
        int shown = 0;
        for (size_t e = d->count; e > 0 && shown < MOST_SHOWN; e--) {
            const eitp_json *evaluation = eitp_json_root(d->evaluations[e - 1]);
            const eitp_json *samples = eitp_json_member(evaluation, "samples");
            if (!recorded_items(samples))
                continue;
            if (!shown)
                page_add_name(p, &p->runs[i]);
            add_samples(p, evaluation, !shown);
            shown++;
        }
    }
}
