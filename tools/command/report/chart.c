#include "report/chart_parts.h"

enum {
    ACROSS = 1000,  /* units of a plot's width, regardless of its pixels */
    HOVERS = 80,    /* parts of the width with values on hover */
    TICK_SPACE = 15 /* pixels between two labels of the vertical axis */
};

/* Positions of the parts of a picture of curves, in pixels. */
typedef struct layout {
    chart_scale x, y;
    double ticks[CHART_TICKS + 2]; /* of the vertical axis */
    size_t tick_count;
    int left, top, width, height; /* of the plot; width 0: the rest of the box */
} layout;

enum { LAYOUT_RIGHT = 12 };

/* ---- Parts of all pictures ---- */

int chart_text_width(const char *text) {
    int characters = 0;
    for (; *text; text++)
        characters += ((unsigned char)*text & 0xC0) != 0x80;
    return CHART_CHARACTER * characters + 4; /* a short string may consist of wide characters */
}

/* The space `left` and `right` of the plot is padding, so that all parts can be placed in percent of the plot. */
static void add_root(text_buffer *t, const chart_frame *f, int width, int height, int left, int right) {
    const char *namespaces = f->is_file ? "xmlns=\"http://www.w3.org/2000/svg\" " : "";
    text_format(t, "<svg %sclass=\"chart\" role=\"img\" aria-labelledby=\"%s-t %s-d\" ", namespaces, f->id, f->id);
    if (width)
        text_format(t, "width=\"%d\" height=\"%d\" viewBox=\"%d 0 %d %d\">", width, height, -left, width, height);
    else
        text_format(t, "width=\"100%%\" height=\"%d\" style=\"padding:0 %dpx 0 %dpx\">", height, right, left);
    text_format(t, "<title id=\"%s-t\">", f->id);
    markup_text(t, f->title);
    text_format(t, "</title><desc id=\"%s-d\">", f->id);
    markup_text(t, f->description ? f->description : "");
    text_format(t, "</desc>\n");
}

void chart_open(text_buffer *t, const chart_frame *f, int width, int body, int left, int right) {
    enum { TITLE = 34, MARGIN = 14 };
    if (!f->is_file) {
        add_root(t, f, width, body, left, right);
        return;
    }
    add_root(t, f, width + 2 * MARGIN, body + TITLE + MARGIN, left + MARGIN, right);
    text_format(t, "<style>");
    chart_style(t);
    text_format(t, "</style><rect class=\"paper\" x=\"%d\" width=\"100%%\" height=\"100%%\"/>", -left - MARGIN);
    text_format(t, "<text class=\"name\" x=\"%d\" y=\"24\">", -left);
    markup_text(t, f->title);
    text_format(t, "</text><svg y=\"%d\" width=\"%d\" height=\"%d\" overflow=\"visible\">\n", TITLE,
                width - left - right, body);
}

void chart_close(text_buffer *t, const chart_frame *f) {
    text_format(t, f->is_file ? "</svg></svg>\n" : "</svg>\n");
}

int chart_add_legend(text_buffer *t, const chart_key *keys, size_t count, int left, int width) {
    enum { SQUARE = 16, GAP = 14 };
    int x = 0, height = count ? CHART_LINE_HEIGHT : 0;
    for (size_t i = 0; i < count; i++) {
        const int size = SQUARE + chart_text_width(keys[i].label) + GAP;
        if (x && x + size > width) {
            x = 0;
            height += CHART_LINE_HEIGHT;
        }
        if (t) {
            const int line = height - CHART_LINE_HEIGHT, begin = left + x;
            text_format(t, "<rect class=\"c%d f\" x=\"%d\" y=\"%d\" width=\"11\" height=\"11\" rx=\"2\"/>",
                        keys[i].colour, begin, line + 2);
            text_format(t, "<text x=\"%d\" y=\"%d\">", begin + SQUARE, line + 12);
            markup_text(t, keys[i].label);
            text_format(t, "</text>");
        }
        x += size;
    }
    return height;
}

void chart_style(text_buffer *t) {
    static const char *const light[CHART_COLOURS] = {"#1f6fd1", "#c2410c", "#15803d", "#9333ea",
                                                     "#b8860b", "#0e7490", "#be185d", "#57606a"};
    static const char *const dark[CHART_COLOURS] = {"#6cb0ff", "#ff9e64", "#6fd08c", "#c99bff",
                                                    "#e6c34a", "#4fd1e0", "#ff8fbd", "#a9b4c0"};
    text_format(t, ":root{--paper:#fff;--ink:#1b1f24;--muted:#57606a;--rule:#d8dee4;--alarm:#b3261e;--hover:#1b1f2414");
    for (int i = 0; i < CHART_COLOURS; i++)
        text_format(t, ";--c%d:%s", i, light[i]);
    text_format(t,
                "}\n@media screen and (prefers-color-scheme:dark){:root{--paper:#14181d;--ink:#e6e9ee;--muted:#a3adb8;"
                "--rule:#343b44;--alarm:#ff8a80;--hover:#ffffff1c");
    for (int i = 0; i < CHART_COLOURS; i++)
        text_format(t, ";--c%d:%s", i, dark[i]);
    text_format(t, "}}\n");
    for (int i = 0; i < CHART_COLOURS; i++)
        text_format(t, ".chart .c%d{color:var(--c%d)}", i, i);
    text_format(t, "\n.chart{display:block;box-sizing:border-box;overflow:visible;font:12px system-ui,sans-serif}"
                   ".chart text{fill:var(--ink)}.chart text.m{fill:var(--muted)}.chart text.e{text-anchor:end}"
                   ".chart text.k{text-anchor:middle}.chart text.name{font-size:15px;font-weight:600}"
                   ".chart .paper{fill:var(--paper)}.chart path,.chart line{fill:none;vector-effect:non-scaling-stroke}"
                   ".chart .g{stroke:var(--rule);shape-rendering:crispEdges}"
                   ".chart .s{stroke:currentColor;stroke-linecap:round;stroke-width:1.75;stroke-linejoin:round}"
                   ".chart .d{stroke-dasharray:6 4}.chart .t{stroke:currentColor;stroke-width:1;stroke-opacity:.45}"
                   ".chart .o{stroke:currentColor;stroke-width:6;stroke-linecap:round}"
                   ".chart .b{fill:currentColor;fill-opacity:.2;stroke:none}.chart .f{fill:currentColor}"
                   ".chart .e1{stroke:currentColor;stroke-width:1.25}.chart .z{fill:var(--rule);fill-opacity:.6}"
                   ".chart .x{fill:currentColor;stroke:var(--rule);stroke-width:1}.chart text.n{pointer-events:none}"
                   ".chart .q{stroke:var(--muted);stroke-dasharray:2 3}"
                   ".chart .a{stroke:var(--alarm);stroke-width:1.5;stroke-dasharray:5 3}"
                   ".chart .h{fill:transparent;pointer-events:all}.chart .h:hover{fill:var(--hover)}\n");
}

/* ---- Curves: extents and layout ---- */

static void widen(double value, int is_logarithmic, double *low, double *high) {
    if (!isfinite(value) || (is_logarithmic && value <= 0))
        return;
    *low = *low <= value ? *low : value;
    *high = *high >= value ? *high : value;
}

static void find_extents(const chart_curves *c, layout *l) {
    double x_low = (double)NAN, x_high = (double)NAN, y_low = (double)NAN, y_high = (double)NAN;
    for (size_t i = 0; i < c->series_count; i++) {
        for (size_t p = 0; p < c->series[i].count; p++) {
            const chart_point *point = &c->series[i].points[p];
            if (!isfinite(point->y))
                continue;
            widen(point->x, c->x.is_logarithmic, &x_low, &x_high);
            widen(point->y, c->y.is_logarithmic, &y_low, &y_high);
            widen(point->low, c->y.is_logarithmic, &y_low, &y_high);
            widen(point->high, c->y.is_logarithmic, &y_low, &y_high);
        }
    }
    for (size_t i = 0; i < c->level_count; i++)
        widen(c->levels[i].at, c->y.is_logarithmic, &y_low, &y_high);
    l->x = chart_scale_of(&c->x, x_low, x_high);
    l->y = chart_scale_of(&c->y, y_low, y_high);
}

/* Extends the vertical axis to ticks if its extents are not given. Returns the new number of ticks. */
static size_t round_extents(const chart_axis *axis, chart_scale *s, double *ticks, size_t count) {
    const double distance = count > 1 ? ticks[1] - ticks[0] : 0, room = 1e-3 * distance;
    if (axis->low < axis->high || s->is_logarithmic || count < 2)
        return count;
    if (s->low < ticks[0] - room) {
        s->low = ticks[0] - distance;
        memmove(ticks + 1, ticks, count * sizeof *ticks);
        ticks[0] = s->low;
        count++;
    }
    if (s->high > ticks[count - 1] + room) {
        s->high = ticks[count - 1] + distance;
        ticks[count++] = s->high;
    }
    return count;
}

static layout find_layout(const chart_curves *c) {
    layout l;
    memset(&l, 0, sizeof l);
    find_extents(c, &l);
    l.height = c->frame.height ? c->frame.height : 200;
    l.tick_count = chart_ticks(&l.y, c->y.format, 5, l.ticks);
    l.tick_count = round_extents(&c->y, &l.y, l.ticks, l.tick_count);
    for (size_t i = 0; i < l.tick_count; i++) {
        const chart_value v = chart_tick_text(c->y.format, l.ticks, l.tick_count, i);
        const int width = chart_text_width(v.text);
        l.left = l.left > width ? l.left : width;
    }
    l.left += 8;
    if (c->frame.width)
        l.width = c->frame.width - l.left - LAYOUT_RIGHT;
    return l;
}

/* ---- Curves: drawing ---- */

/* Opens the box of the plot: in units of ACROSS, or in pixels and percent. `is_cut` clips the outside. */
static void open_plot(text_buffer *t, const layout *l, int is_scaled, int is_cut) {
    text_format(t, "<svg y=\"%d\" height=\"%d\" ", l->top, l->height);
    if (l->width)
        text_format(t, "width=\"%d\"", l->width);
    else
        text_format(t, "width=\"100%%\"");
    if (is_scaled)
        text_format(t, " viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\"", ACROSS, l->height);
    text_format(t, is_cut ? ">" : " overflow=\"visible\">");
}

/* Adds a coordinate in tenths, clamped to just outside the plot. */
static void add_coordinate(text_buffer *t, double value) {
    char digits[32];
    const double most = 4 * ACROSS;
    const double tenths = floor(10 * (value < -most ? -most : value > most ? most : value) + 0.5);
    snprintf(digits, sizeof digits, "%.1f", tenths / 10 + 0);
    if (strstr(digits, ".0"))
        *strstr(digits, ".0") = 0;
    text_format(t, "%s", digits);
}

static double across(const layout *l, double x) {
    return ACROSS * chart_place(&l->x, x);
}

static double down(const layout *l, double y) {
    return l->height * (1 - chart_place(&l->y, y));
}

static void add_position(text_buffer *t, char operation, const layout *l, double x, double y) {
    text_add(t, &operation, 1);
    add_coordinate(t, across(l, x));
    text_add(t, " ", 1);
    add_coordinate(t, down(l, y));
}

static int is_there(const layout *l, double x, double y) {
    return isfinite(chart_place(&l->x, x)) && isfinite(chart_place(&l->y, y));
}

static void add_line(text_buffer *t, const layout *l, const chart_series *s, const char *kind) {
    int is_joined = 0;
    text_format(t, "<path class=\"c%d %s\" d=\"", s->colour, kind);
    for (size_t i = 0; i < s->count; i++) {
        const chart_point *p = &s->points[i];
        const int is_here = is_there(l, p->x, p->y);
        if (is_here)
            add_position(t, is_joined ? 'L' : 'M', l, p->x, p->y);
        if (is_here && !is_joined) /* makes a point between two gaps visible */
            text_format(t, "h.1");
        is_joined = is_here;
    }
    text_format(t, "\"/>");
}

static int has_band(const layout *l, const chart_point *p) {
    return is_there(l, p->x, p->low) && isfinite(chart_place(&l->y, p->high)) && p->low < p->high;
}

static void add_band(text_buffer *t, const layout *l, const chart_series *s) {
    size_t begin = 0;
    text_format(t, "<path class=\"c%d b\" d=\"", s->colour);
    while (begin < s->count) {
        size_t end = begin;
        while (end < s->count && has_band(l, &s->points[end]))
            end++;
        for (size_t i = begin; i < end; i++)
            add_position(t, i == begin ? 'M' : 'L', l, s->points[i].x, s->points[i].low);
        for (size_t i = end; i > begin; i--)
            add_position(t, 'L', l, s->points[i - 1].x, s->points[i - 1].high);
        if (end > begin)
            text_add(t, "Z", 1);
        begin = end + (end == begin);
    }
    text_format(t, "\"/>");
}

static void add_dots(text_buffer *t, const layout *l, const chart_series *s) {
    add_line(t, l, s, "t");
    text_format(t, "<path class=\"c%d e1\" d=\"", s->colour);
    for (size_t i = 0; i < s->count; i++) {
        if (has_band(l, &s->points[i])) {
            add_position(t, 'M', l, s->points[i].x, s->points[i].low);
            text_add(t, "V", 1);
            add_coordinate(t, down(l, s->points[i].high));
        }
    }
    text_format(t, "\"/><path class=\"c%d o\" d=\"", s->colour);
    for (size_t i = 0; i < s->count; i++) {
        if (is_there(l, s->points[i].x, s->points[i].y)) {
            add_position(t, 'M', l, s->points[i].x, s->points[i].y);
            text_add(t, "h0", 2);
        }
    }
    text_format(t, "\"/>");
}

static void add_series(text_buffer *t, const layout *l, const chart_series *s) {
    int bands = 0;
    if (s->kind == CHART_DOTS) {
        add_dots(t, l, s);
        return;
    }
    for (size_t i = 0; i < s->count; i++)
        bands |= has_band(l, &s->points[i]);
    if (bands)
        add_band(t, l, s);
    add_line(t, l, s, s->kind == CHART_FAINT ? "t" : s->kind == CHART_DASHED ? "s d" : "s");
}

/* Adds lines and labels of both axes, and horizontal marks. */
static void add_axes(text_buffer *t, const layout *l, const chart_curves *c) {
    double ticks[CHART_TICKS];
    const size_t count = chart_ticks(&l->x, c->x.format, c->x.format == CHART_SECONDS ? 4 : 5, ticks);
    double last = l->height + 2 * TICK_SPACE;
    for (size_t i = 0; i < l->tick_count; i++) {
        const double y = down(l, l->ticks[i]);
        const chart_value v = chart_tick_text(c->y.format, l->ticks, l->tick_count, i);
        text_format(t, "<line class=\"g\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>", y, y);
        if (last - y < TICK_SPACE)
            continue;
        text_format(t, "<text class=\"m e\" x=\"-6\" y=\"%.1f\">%s</text>", y + 4, v.text);
        last = y;
    }
    for (size_t i = 0; i < count; i++) {
        const double place = 100 * chart_place(&l->x, ticks[i]);
        const chart_value v = chart_tick_text(c->x.format, ticks, count, i);
        text_format(t, "<text class=\"m%s\" x=\"%.2f%%\" y=\"%d\">%s</text>",
                    place > 93  ? " e"
                    : place < 3 ? ""
                                : " k",
                    place, l->height + 16, v.text);
    }
    for (size_t i = 0; i < c->level_count; i++) {
        const double y = down(l, c->levels[i].at);
        text_format(t, "<line class=\"%s\" x2=\"100%%\" y1=\"%.1f\" y2=\"%.1f\"/>",
                    c->levels[i].is_alarming ? "a" : "q", y, y);
        text_format(t, "<text class=\"m e\" x=\"100%%\" y=\"%.1f\">", y < 14 ? y + 13 : y - 4);
        markup_text(t, c->levels[i].label);
        text_format(t, "</text>");
    }
    if (c->x.title && *c->x.title) {
        text_format(t, "<text class=\"m e\" x=\"100%%\" y=\"%d\">", l->height + 32);
        markup_text(t, c->x.title);
        text_format(t, "</text>");
    }
}

/* Draws one line for marks that are close together; hovering shows all of them. */
static void add_marks(text_buffer *t, const layout *l, const chart_curves *c) {
    enum { LEAST = 5 };
    double last = -ACROSS;
    for (size_t i = 0; i < c->mark_count; i++) {
        const double x = across(l, c->marks[i].at);
        if (!isfinite(x) || x < 0 || x > ACROSS || fabs(x - last) < LEAST)
            continue;
        text_format(t, "<path class=\"%s\" d=\"M", c->marks[i].is_alarming ? "a" : "q");
        add_coordinate(t, x);
        text_format(t, " 0V%d\"/>", l->height);
        last = x;
    }
}

/* ---- Curves: values on hover ---- */

/* A point, or a mark if `series` is SIZE_MAX. */
typedef struct hover {
    double at; /* 0 to ACROSS */
    size_t series, index;
} hover;

static int compare_hovers(const void *a, const void *b) {
    const hover *left = (const hover *)a, *right = (const hover *)b;
    if (left->at < right->at || left->at > right->at)
        return left->at < right->at ? -1 : 1;
    return (left->index > right->index) - (left->index < right->index);
}

static hover *find_hovers(const layout *l, const chart_curves *c, size_t *count) {
    size_t capacity = c->mark_count;
    hover *all;
    for (size_t i = 0; i < c->series_count; i++)
        capacity += c->series[i].count;
    all = (hover *)command_allocate(capacity * sizeof *all);
    *count = 0;
    for (size_t i = 0; i <= c->series_count; i++) {
        const int is_mark = i == c->series_count;
        const size_t points = is_mark ? c->mark_count : c->series[i].kind == CHART_FAINT ? 0 : c->series[i].count;
        for (size_t p = 0; p < points; p++) {
            const hover h = {across(l, is_mark ? c->marks[p].at : c->series[i].points[p].x), is_mark ? SIZE_MAX : i, p};
            if (h.at >= 0 && h.at <= ACROSS &&
                (is_mark || is_there(l, c->series[i].points[p].x, c->series[i].points[p].y)))
                all[(*count)++] = h;
        }
    }
    if (*count)
        qsort(all, *count, sizeof *all, compare_hovers);
    return all;
}

static void add_value(text_buffer *t, const chart_curves *c, const hover *h) {
    const chart_series *s = &c->series[h->series];
    const chart_point *p = &s->points[h->index];
    text_format(t, "\n");
    markup_text(t, s->label);
    text_format(t, " %s", chart_format_value(c->y.format, p->y, 5).text);
    if (isfinite(p->low) && isfinite(p->high) && p->low < p->high)
        text_format(t, " (%s to %s)", chart_format_value(c->y.format, p->low, 4).text,
                    chart_format_value(c->y.format, p->high, 4).text);
}

/* Adds the last point of each series in a part of the width, and its first marks. */
static void add_hover_text(text_buffer *t, const chart_curves *c, const hover *part, size_t count) {
    enum { MOST_NAMED = 3 };
    size_t marks = 0;
    const hover *last = &part[count - 1];
    const double x =
        last->series == SIZE_MAX ? c->marks[last->index].at : c->series[last->series].points[last->index].x;
    text_format(t, "<title>");
    markup_text(t, c->x.title ? c->x.title : "");
    text_format(t, " %s", chart_format_value(c->x.format, x, 5).text);
    for (size_t i = 0; i < c->series_count; i++) {
        for (size_t p = count; p > 0; p--) {
            if (part[p - 1].series == i) {
                add_value(t, c, &part[p - 1]);
                break;
            }
        }
    }
    for (size_t p = 0; p < count; p++) {
        if (part[p].series == SIZE_MAX && marks++ < MOST_NAMED) {
            text_format(t, "\n");
            markup_text(t, c->marks[part[p].index].label);
        }
    }
    if (marks > MOST_NAMED)
        text_format(t, "\nand %zu more", marks - MOST_NAMED);
    text_format(t, "</title>");
}

static void add_hovers(text_buffer *t, const layout *l, const chart_curves *c) {
    size_t count;
    hover *all = find_hovers(l, c, &count);
    double left = 0;
    for (size_t begin = 0, end; begin < count; begin = end) {
        double right = ACROSS;
        for (end = begin + 1; end < count && all[end].at - all[begin].at < (double)ACROSS / HOVERS; end++)
            ;
        if (end < count)
            right = (all[end - 1].at + all[end].at) / 2;
        text_format(t, "<rect class=\"h\" x=\"%.1f\" width=\"%.1f\" height=\"%d\">", left, right - left, l->height);
        add_hover_text(t, c, &all[begin], end - begin);
        text_format(t, "</rect>");
        left = right;
    }
    free(all);
}

/* ---- Curves ---- */

/* Describes the curves in words. */
static void describe(text_buffer *t, const chart_curves *c) {
    if (c->frame.description)
        text_format(t, "%s", c->frame.description);
    for (size_t i = 0; i < c->series_count; i++) {
        const chart_series *s = &c->series[i];
        double low = (double)NAN, high = (double)NAN, first = (double)NAN, last = (double)NAN;
        for (size_t p = 0; p < s->count; p++) {
            if (!isfinite(s->points[p].y))
                continue;
            widen(s->points[p].y, 0, &low, &high);
            last = s->points[p].y;
            first = isfinite(first) ? first : last;
        }
        if (s->kind != CHART_FAINT && isfinite(last))
            text_format(t, "%s%s: from %s to %s, lowest %s, highest %s.", t->size ? " " : "", s->label,
                        chart_format_value(c->y.format, first, 4).text, chart_format_value(c->y.format, last, 4).text,
                        chart_format_value(c->y.format, low, 4).text, chart_format_value(c->y.format, high, 4).text);
    }
}

/* Adds an entry for each series, unless there is only one. Dots get none if a line has their colour. */
static int add_keys(text_buffer *t, const chart_curves *c, int left) {
    const int width = c->frame.width ? c->frame.width : CHART_NARROW;
    chart_key *keys = (chart_key *)command_allocate(c->series_count * sizeof *keys);
    size_t count = 0;
    int height;
    for (size_t i = 0; i < c->series_count; i++) {
        const chart_series *s = &c->series[i], *before = i ? s - 1 : NULL;
        const int is_known =
            before && s->kind == CHART_DOTS && before->kind != CHART_DOTS && before->colour == s->colour;
        if (s->kind != CHART_FAINT && !is_known) {
            keys[count].label = c->series[i].label;
            keys[count++].colour = c->series[i].colour;
        }
    }
    height = chart_add_legend(t, keys, count > 1 ? count : 0, left, width);
    free(keys);
    return height;
}

void chart_add_curves(text_buffer *t, const chart_curves *c) {
    layout l = find_layout(c);
    chart_frame frame = c->frame;
    text_buffer description = {0};
    const int legend = add_keys(NULL, c, 0);
    const int title = c->y.title && *c->y.title ? CHART_LINE_HEIGHT : 0;
    l.top = legend + title + 6;
    describe(&description, c);
    frame.description = description.data;
    chart_open(t, &frame, c->frame.width, l.top + l.height + (c->x.title && *c->x.title ? 38 : 22), l.left,
               LAYOUT_RIGHT);
    add_keys(t, c, -l.left);
    if (title) {
        text_format(t, "<text class=\"m\" x=\"%d\" y=\"%d\">", -l.left, legend + 12);
        markup_text(t, c->y.title);
        text_format(t, "</text>");
    }
    open_plot(t, &l, 0, 0);
    add_axes(t, &l, c);
    if (!description.size)
        text_format(t, "<text class=\"m k\" x=\"50%%\" y=\"%d\">no values</text>", l.height / 2);
    text_format(t, "</svg>\n");
    open_plot(t, &l, 1, c->x.low < c->x.high || c->y.low < c->y.high);
    for (size_t i = 0; i < c->series_count; i++)
        add_series(t, &l, &c->series[i]);
    add_marks(t, &l, c);
    if (!c->frame.is_file)
        add_hovers(t, &l, c);
    text_format(t, "</svg>\n");
    chart_close(t, &frame);
    text_release(&description);
}
