#include "report/page.h"

enum { MOST_EVENTS = 200 };

static int is_alarming(const recorded_event *e) {
    return !strcmp(e->kind, "alarm") || !strcmp(e->level, "warning") || !strcmp(e->level, "error");
}

static void add_event(page *p, const recorded_event *e) {
    const int is_alarm = !strcmp(e->kind, "alarm");
    text_format(&p->text, "<tr><td class=\"n\">%lld</td><td class=\"w\">%s</td><td class=\"w%s\">", (long long)e->step,
                page_time(e->time).text, is_alarming(e) ? " bad" : "");
    markup_text(&p->text, e->kind);
    if (is_alarm) {
        text_format(&p->text, ": ");
        markup_text(&p->text, recorded_text(e->record, "alarm", "alarm"));
    }
    text_format(&p->text, "</td><td class=\"t\">");
    markup_short(&p->text, e->message, strlen(e->message), 2000);
    text_format(&p->text, "</td></tr>\n");
}

/* Adds the last events: alarms and warnings, or all others. */
static void add_events(page *p, const recorded_run *r, int alarming, const char *caption) {
    static const char *const headings[] = {"Step", "Time", "Event", "Message"};
    size_t count = 0, skipped;
    for (size_t i = 0; i < r->event_count; i++)
        count += is_alarming(&r->events[i]) == alarming;
    if (!count)
        return;
    skipped = count > MOST_EVENTS ? count - MOST_EVENTS : 0;
    page_open_table(p, caption, headings, COMMAND_COUNT(headings));
    for (size_t i = 0, at = 0; i < r->event_count; i++) {
        if (is_alarming(&r->events[i]) == alarming && at++ >= skipped)
            add_event(p, &r->events[i]);
    }
    page_close_table(p);
    if (skipped)
        text_format(&p->text, "<p class=\"muted\">%zu earlier ones are not shown.</p>\n", skipped);
}

void page_add_health(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        const recorded_run *r = p->runs[i].run;
        size_t alarms = 0;
        if (!r->event_count)
            continue;
        page_add_name(p, &p->runs[i]);
        for (size_t e = 0; e < r->event_count; e++)
            alarms += (size_t)is_alarming(&r->events[e]);
        if (!alarms)
            text_format(&p->text, "<p>No alarms and no warnings.</p>\n");
        add_events(p, r, 1, "Alarms and warnings");
        text_format(&p->text, "<details%s><summary>Other events</summary>\n", alarms ? "" : " open");
        add_events(p, r, 0, "Other events");
        text_format(&p->text, "</details>\n");
    }
}
