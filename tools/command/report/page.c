#include "report/page.h"

#include <time.h>

/* ---- Sections ---- */

typedef struct page_section {
    const char *id, *title;
    void (*add)(page *p);
} page_section;

/* In the order of the page. A section without content is omitted. */
static const page_section sections[] = {
    {"loss", "Loss", page_add_loss},
    {"terms", "Loss terms and measures", page_add_terms},
    {"comparison", "Comparison", page_add_comparison},
    {"metrics", "Metrics and mistakes", page_add_metrics},
    {"optimization", "Learning rate and norms", page_add_optimization},
    {"health", "Health", page_add_health},
    {"speed", "Speed", page_add_speed},
    {"limits", "Limits and trends", page_add_limits},
    {"memory", "Memory", page_add_memory},
    {"gpu", "GPU", page_add_gpu},
    {"layers", "Layers", page_add_layers},
    {"samples", "Text samples", page_add_samples},
    {"settings", "Configuration", page_add_settings},
    {"machine", "Machine", page_add_machine},
    {"files", "Files and checkpoints", page_add_files},
    {"commands", "Resume and reproduce", page_add_commands},
};

/* ---- For sections ---- */

void page_add_name(page *p, const page_run *r) {
    if (p->run_count < 2)
        return;
    text_format(&p->text, "<h3>");
    markup_text(&p->text, r->run->name);
    text_format(&p->text, "</h3>\n");
}

void page_open_table(page *p, const char *caption, const char *const *headings, size_t count) {
    text_format(&p->text, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"");
    markup_text(&p->text, caption);
    text_format(&p->text, "\"><table><caption>");
    markup_text(&p->text, caption);
    text_format(&p->text, "</caption>");
    if (count)
        text_format(&p->text, "<thead><tr>");
    for (size_t i = 0; i < count; i++) {
        text_format(&p->text, "<th scope=\"col\">");
        markup_text(&p->text, headings[i]);
        text_format(&p->text, "</th>");
    }
    text_format(&p->text, count ? "</tr></thead><tbody>\n" : "<tbody>\n");
}

void page_close_table(page *p) {
    text_format(&p->text, "</tbody></table></div>\n");
}

void page_begin_row(page *p, const char *heading) {
    text_format(&p->text, "<tr>");
    if (heading) {
        text_format(&p->text, "<th scope=\"row\">");
        markup_text(&p->text, heading);
        text_format(&p->text, "</th>");
    }
}

void page_add_cell(page *p, const char *text) {
    text_format(&p->text, "<td>");
    markup_text(&p->text, text);
    text_format(&p->text, "</td>");
}

void page_add_number(page *p, chart_format format, double value, int digits) {
    text_format(&p->text, "<td class=\"n\">%s</td>", chart_format_value(format, value, digits).text);
}

void page_end_row(page *p) {
    text_format(&p->text, "</tr>\n");
}

chart_value page_time(double seconds) {
    chart_value v = {"unknown"};
    struct tm utc;
    const time_t whole = (time_t)seconds;
    if (seconds > 0 && seconds < 2e11 && gmtime_r(&whole, &utc))
        strftime(v.text, sizeof v.text, "%Y-%m-%d %H:%M:%S UTC", &utc);
    return v;
}

void page_add_time(page *p, double seconds) {
    page_add_cell(p, page_time(seconds).text);
}

static int ends_as_size(const char *name) {
    const size_t length = strlen(name), size = strlen("_bytes");
    return length > size && !strcmp(name + length - size, "_bytes");
}

void page_add_words(page *p, const char *name) {
    char *words = command_copy(name);
    if (ends_as_size(words))
        words[strlen(words) - strlen("_bytes")] = 0;
    for (char *at = words; *at; at++)
        *at = *at == '_' || *at == '-' ? ' ' : *at;
    markup_text(&p->text, words);
    free(words);
}

void page_add_json(page *p, const eitp_json *value, size_t most) {
    const size_t begin = p->text.size;
    if (value->kind == EITP_JSON_STRING)
        markup_short(&p->text, value->text, value->text_size, most);
    else if (value->kind == EITP_JSON_NUMBER && value->name && ends_as_size(value->name))
        text_format(&p->text, "%s", chart_format_value(CHART_BYTES, value->number, 4).text);
    else if (value->kind == EITP_JSON_NUMBER)
        markup_short(&p->text, value->text, value->text_size, 40);
    else if (value->kind == EITP_JSON_BOOLEAN)
        text_format(&p->text, value->boolean ? "yes" : "no");
    else if (value->kind == EITP_JSON_NULL)
        text_format(&p->text, "-");
    for (const eitp_json *child = value->first_child; child; child = child->next) {
        if (p->text.size - begin > most) {
            text_format(&p->text, ", \xE2\x80\xA6");
            break;
        }
        text_format(&p->text, p->text.size > begin ? ", " : "");
        if (value->kind == EITP_JSON_OBJECT) {
            page_add_words(p, child->name);
            text_format(&p->text, ": ");
        }
        page_add_json(p, child, most / 4 + 20);
    }
}

const char *page_chart_id(page *p) {
    static char id[24];
    snprintf(id, sizeof id, "chart%zu", ++p->chart_count);
    return id;
}

/* ---- Style ---- */

static const char style[] =
    "*{box-sizing:border-box}html{color-scheme:light dark;-webkit-text-size-adjust:100%}"
    "body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}"
    "header,main,footer,nav{max-width:1240px;margin:0 auto;padding:0 16px}"
    "h1{font-size:26px;line-height:1.25;margin:24px 0 4px;overflow-wrap:anywhere}"
    "h2{font-size:20px;margin:40px 0 12px;padding-top:12px;border-top:1px solid var(--rule)}"
    "h3{font-size:16px;margin:20px 0 8px;overflow-wrap:anywhere}p{margin:8px 0;overflow-wrap:anywhere}"
    "a{color:var(--c0)}a:focus-visible,summary:focus-visible,input:focus-visible,.scroll:focus-visible"
    "{outline:3px solid var(--c0);outline-offset:2px}"
    ".muted{color:var(--muted)}.lines{white-space:pre-line}.state{font-size:17px;margin:4px "
    "0}.bad{color:var(--alarm);font-weight:600}"
    ".note{border-left:4px solid var(--c1);padding:4px 12px;margin:12px 0;overflow-wrap:anywhere;white-space:pre-line}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));gap:10px;margin:16px 0}"
    ".tiles div{border:1px solid var(--rule);border-radius:8px;padding:8px 12px}"
    ".tiles dt{color:var(--muted);font-size:13px}.tiles dd{margin:0;font-size:18px;font-variant-numeric:tabular-nums}"
    ".tiles dd small{display:block;font-size:12px;color:var(--muted)}"
    "nav ul{display:flex;flex-wrap:wrap;gap:4px 16px;list-style:none;margin:12px 0;padding:0}"
    ".controls{display:flex;flex-wrap:wrap;gap:8px 24px;margin:12px 0}"
    "fieldset{border:0;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:2px 14px;min-width:0}"
    "legend{float:left;padding:0 14px 0 0;color:var(--muted)}label{white-space:nowrap}input{accent-color:var(--c0)}"
    ".grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,500px),1fr));"
    "gap:24px 32px;margin:0 0 24px}"
    "figure{margin:0;min-width:0;break-inside:avoid}figcaption{font-weight:600;margin:0 0 6px}"
    "figcaption small{display:block;font-weight:400;font-size:13px;color:var(--muted)}"
    ".v{display:none}.v.first{display:block}"
    ".scroll{overflow-x:auto;margin:8px 0 16px;max-width:100%}"
    "table{border-collapse:collapse;font-size:14px}"
    "caption{text-align:left;color:var(--muted);font-size:13px;padding:0 0 4px;white-space:nowrap}"
    "th,td{text-align:left;vertical-align:top;padding:4px 16px 4px 0;border-bottom:1px solid var(--rule)}"
    "th,td{overflow-wrap:anywhere;min-width:3em;max-width:60em}"
    "td:last-child,th:last-child{padding-right:0}"
    "thead th,tbody th,td.n,td.w{white-space:nowrap}"
    "thead th{font-weight:600}"
    "tbody th{font-weight:400;color:var(--muted)}"
    "td.n{font-variant-numeric:tabular-nums}"
    "td.t{min-width:18em}td.s{min-width:10em}"
    "pre{background:color-mix(in srgb,var(--ink) 6%,var(--paper));border-radius:8px;padding:10px 12px;"
    "margin:8px 0 16px;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.5 ui-monospace,monospace}"
    "pre b{font-weight:700}"
    "details{margin:8px 0}summary{cursor:pointer}"
    "footer{margin:40px auto 24px;font-size:13px;color:var(--muted)}"
    "@media print{html{color-scheme:light}.controls,nav{display:none}.scroll{overflow:visible}"
    "table{font-size:12px}th,td,td.t,td.s{padding-right:8px;min-width:0}"
    "thead th,tbody th,td.n,td.w{white-space:normal}"
    "h2,h3{break-after:avoid}tr{break-inside:avoid}}\n";

/* Shows the charts for the chosen axes: class x0 is for steps, y0 for a linear axis, ya for a single one. Browsers
   without :has show those of class first. */
static void add_choices(text_buffer *t) {
    text_format(t, "@supports selector(:has(a)){.v.first{display:none}");
    for (int x = 0; x < CURVE_X_COUNT; x++) {
        text_format(t, "body:has(#x%d:checked) .x%d.ya", x, x);
        for (int y = 0; y < 2; y++)
            text_format(t, ",body:has(#x%d:checked):has(#y%d:checked) .x%d.y%d", x, y, x, y);
        text_format(t, "{display:block}");
    }
    text_format(t, "}\n");
}

/* ---- The page ---- */

static void add_title(page *p) {
    text_format(&p->text, "<title>");
    for (size_t i = 0; i < p->run_count; i++) {
        text_format(&p->text, i ? ", " : "");
        markup_text(&p->text, p->runs[i].run->name);
    }
    text_format(&p->text, "</title>\n");
}

static void add_begin(page *p) {
    text_format(&p->text, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                          "style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                          "<meta name=\"generator\" content=\"eitp " EITP_VERSION_STRING "\">\n");
    add_title(p);
    text_format(&p->text, "<style>\n");
    chart_style(&p->text);
    text_add(&p->text, style, sizeof style - 1);
    add_choices(&p->text);
    text_format(&p->text, "</style>\n</head>\n<body>\n");
}

static int has_x(const page *p, curve_x x) {
    int every = 1;
    for (size_t i = 0; i < p->run_count; i++)
        every &= x == CURVE_STEP || p->runs[i].places.count[x] > 0;
    return every;
}

static void add_radio(page *p, char name, int value, int is_checked, const char *label) {
    text_format(&p->text, "<label><input type=\"radio\" name=\"%c\" id=\"%c%d\"%s> ", name, name, value,
                is_checked ? " checked" : "");
    markup_text(&p->text, label);
    text_format(&p->text, "</label>\n");
}

static void add_controls(page *p) {
    const char *const names[CURVE_X_COUNT] = {"steps", recorded_unit(p->runs[0].run), "training time"};
    text_format(&p->text, "<div class=\"controls\"><fieldset><legend>Horizontal axis</legend>\n");
    for (int x = 0; x < CURVE_X_COUNT; x++) {
        if (has_x(p, (curve_x)x))
            add_radio(p, 'x', x, x == (int)p->x, names[x]);
    }
    text_format(&p->text, "</fieldset>\n<fieldset><legend>Loss</legend>\n");
    add_radio(p, 'y', 0, !p->is_logarithmic, "linear");
    add_radio(p, 'y', 1, p->is_logarithmic, "logarithmic");
    text_format(&p->text, "</fieldset></div>\n");
}

/* Writes the sections into a separate buffer, and links to those with content. */
static text_buffer write_sections(page *p, text_buffer *links) {
    text_buffer before = p->text, body;
    memset(&p->text, 0, sizeof p->text);
    for (size_t i = 0; i < COMMAND_COUNT(sections); i++) {
        const size_t begin = p->text.size;
        size_t content;
        text_format(&p->text, "<section aria-labelledby=\"%s\">\n<h2 id=\"%s\">%s</h2>\n", sections[i].id,
                    sections[i].id, sections[i].title);
        content = p->text.size;
        sections[i].add(p);
        if (p->text.size == content) {
            p->text.size = begin;
            continue;
        }
        text_format(&p->text, "</section>\n");
        text_format(links, "<li><a href=\"#%s\">%s</a></li>\n", sections[i].id, sections[i].title);
    }
    body = p->text;
    p->text = before;
    return body;
}

void page_write(page *p) {
    text_buffer links = {0}, body;
    if (!has_x(p, p->x))
        p->x = CURVE_STEP;
    add_begin(p);
    text_format(&p->text, "<header>\n");
    page_add_head(p);
    text_format(&p->text, "</header>\n");
    body = write_sections(p, &links);
    text_format(&p->text, "<nav aria-label=\"Sections\"><ul>\n");
    text_add(&p->text, links.data, links.size);
    text_format(&p->text, "</ul></nav>\n<main>\n");
    add_controls(p);
    text_add(&p->text, body.data, body.size);
    text_format(&p->text, "</main>\n<footer>eitp " EITP_VERSION_STRING ", %s</footer>\n</body>\n</html>\n",
                page_time((double)time(NULL)).text);
    text_release(&links);
    text_release(&body);
}
