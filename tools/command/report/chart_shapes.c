#include "report/chart_parts.h"

static int is_bar(double value) {
    return isfinite(value) && value > 0;
}

/* ---- Bars ---- */

enum { BAR_HEIGHT = 16, BAR_ROOM = CHART_LINE_HEIGHT + BAR_HEIGHT + 10 };

static double bar_length(const chart_bars *b, size_t index) {
    double sum = 0;
    for (size_t i = 0; i < b->segment_count; i++)
        sum += is_bar(b->bars[index].values[i]) ? b->bars[index].values[i] : 0;
    return sum;
}

static double longest_bar(const chart_bars *b) {
    double most = b->most;
    for (size_t i = 0; i < b->bar_count && b->most <= 0; i++)
        most = bar_length(b, i) > most ? bar_length(b, i) : most;
    return most > 0 ? most : 1;
}

static int bar_colour(const chart_bars *b, size_t bar, size_t segment) {
    if (!b->segments)
        return b->colours ? b->colours[bar] : 0;
    return b->colours ? b->colours[segment] : (int)(segment % CHART_COLOURS);
}

static void add_bar(text_buffer *t, const chart_bars *b, size_t index, int y, double most) {
    const chart_bar *bar = &b->bars[index];
    double begin = 0;
    text_format(t, "<text y=\"%d\">", y + 12);
    markup_text(t, bar->label);
    text_format(t, "</text>");
    if (bar->text) {
        text_format(t, "<text class=\"m e\" x=\"100%%\" y=\"%d\">", y + 12);
        markup_text(t, bar->text);
        text_format(t, "</text>");
    }
    text_format(t, "<rect class=\"z\" y=\"%d\" width=\"100%%\" height=\"%d\"/>", y + CHART_LINE_HEIGHT, BAR_HEIGHT);
    for (size_t i = 0; i < b->segment_count; i++) {
        const double value = bar->values[i], length = is_bar(value) ? 100 * value / most : 0;
        if (length <= 0)
            continue;
        text_format(t, "<rect class=\"c%d f\" x=\"%.2f%%\" y=\"%d\" width=\"%.2f%%\" height=\"%d\"><title>",
                    bar_colour(b, index, i), begin, y + CHART_LINE_HEIGHT, length, BAR_HEIGHT);
        markup_text(t, b->segments ? b->segments[i] : bar->label);
        text_format(t, ": %s</title></rect>", chart_format_value(b->format, value, 4).text);
        begin += length;
    }
    text_format(t, "\n");
}

static void describe_bars(text_buffer *t, const chart_bars *b) {
    if (b->frame.description)
        text_format(t, "%s ", b->frame.description);
    for (size_t i = 0; i < b->bar_count; i++) {
        text_format(t, "%s%s:", i ? "; " : "", b->bars[i].label);
        for (size_t s = 0; s < b->segment_count; s++) {
            if (is_bar(b->bars[i].values[s]))
                text_format(t, " %s%s%s", b->segments ? b->segments[s] : "", b->segments ? " " : "",
                            chart_format_value(b->format, b->bars[i].values[s], 3).text);
        }
    }
}

/* The legend lists only segments that occur in a bar. */
static int add_segments(text_buffer *t, const chart_bars *b) {
    const int width = b->frame.width ? b->frame.width : CHART_NARROW;
    chart_key *keys = (chart_key *)command_allocate(b->segment_count * sizeof *keys);
    size_t count = 0;
    int height;
    for (size_t s = 0; s < b->segment_count && b->segments; s++) {
        int is_used = 0;
        for (size_t i = 0; i < b->bar_count; i++)
            is_used |= is_bar(b->bars[i].values[s]);
        if (is_used) {
            keys[count].label = b->segments[s];
            keys[count++].colour = bar_colour(b, 0, s);
        }
    }
    height = chart_add_legend(t, keys, count, 0, width);
    free(keys);
    return height;
}

void chart_add_bars(text_buffer *t, const chart_bars *b) {
    const int top = add_segments(NULL, b) + 4;
    const double most = longest_bar(b);
    chart_frame frame = b->frame;
    text_buffer description = {0};
    describe_bars(&description, b);
    frame.description = description.data;
    chart_open(t, &frame, b->frame.width, top + (int)b->bar_count * BAR_ROOM, 0, 0);
    add_segments(t, b);
    for (size_t i = 0; i < b->bar_count; i++)
        add_bar(t, b, i, top + (int)i * BAR_ROOM, most);
    chart_close(t, &frame);
    text_release(&description);
}

/* ---- A matrix ---- */

enum { NAME_MOST = 20 }; /* bytes of a name next to the matrix; hovering shows all of it */

static int widest_name(const chart_matrix *m) {
    int widest = 0;
    for (size_t i = 0; i < m->size; i++) {
        const int width = chart_text_width(m->names[i]);
        widest = widest > width ? widest : width;
    }
    return widest < CHART_CHARACTER * (NAME_MOST + 1) ? widest : CHART_CHARACTER * (NAME_MOST + 1);
}

static void add_name(text_buffer *t, const chart_matrix *m, size_t index) {
    markup_short(t, m->names[index], strlen(m->names[index]), NAME_MOST);
    text_format(t, "<title>");
    markup_text(t, m->names[index]);
    text_format(t, "</title></text>");
}

static void add_cells(text_buffer *t, const chart_matrix *m, size_t row, int cell, int left, int y) {
    double sum = 0;
    for (size_t i = 0; i < m->size; i++)
        sum += is_bar(m->counts[row * m->size + i]) ? m->counts[row * m->size + i] : 0;
    for (size_t i = 0; i < m->size; i++) {
        const double count = m->counts[row * m->size + i], share = is_bar(count) && sum > 0 ? count / sum : 0;
        const int x = left + (int)i * cell;
        const chart_value v = chart_format_value(CHART_COUNT, count, 3);
        text_format(t,
                    "<rect class=\"c%d x\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill-opacity=\"%.2f\"><title>",
                    i == row ? 0 : 1, x, y, cell - 1, cell - 1, 0.45 * share);
        markup_text(t, m->row_title);
        text_format(t, " ");
        markup_text(t, m->names[row]);
        text_format(t, ", ");
        markup_text(t, m->column_title);
        text_format(t, " ");
        markup_text(t, m->names[i]);
        text_format(t, ": %.0f (%.1f %%)</title></rect>", isfinite(count) ? count : 0, 100 * share);
        if (cell >= 40 && is_bar(count))
            text_format(t, "<text class=\"k n\" x=\"%d\" y=\"%d\">%s</text>", x + cell / 2, y + cell / 2 + 4, v.text);
    }
}

void chart_add_matrix(text_buffer *t, const chart_matrix *m) {
    const int cell = m->size <= 12 ? 46 : 18;
    const int names = widest_name(m) + 10, top = names + CHART_LINE_HEIGHT;
    const int side = (int)m->size * cell;
    chart_open(t, &m->frame, names + side + 4, top + side + 2, 0, 0);
    text_format(t, "<text class=\"m e\" x=\"%d\" y=\"%d\">", names - 6, top - 6);
    markup_text(t, m->row_title);
    text_format(t, "</text><text class=\"m\" x=\"%d\" y=\"12\">", names);
    markup_text(t, m->column_title);
    text_format(t, "</text>\n");
    for (size_t i = 0; i < m->size; i++) {
        const int middle = (int)i * cell + cell / 2 + 4;
        text_format(t, "<text transform=\"translate(%d %d) rotate(-90)\">", names + middle, top - 6);
        add_name(t, m, i);
        text_format(t, "<text class=\"e\" x=\"%d\" y=\"%d\">", names - 6, top + middle);
        add_name(t, m, i);
        add_cells(t, m, i, cell, names, top + (int)i * cell);
        text_format(t, "\n");
    }
    chart_close(t, &m->frame);
}
