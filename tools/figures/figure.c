/*
 * Draws a bar chart as SVG with the charts of `eitp report`, for the figures in the documents. Reads lines of
 * tab-separated fields and writes the picture to standard output:
 *     title TEXT
 *     description TEXT
 *     bar LABEL VALUE TEXT COLOUR
 */
#include "tools/command/report/chart.h"

enum { MOST_BARS = 64, WIDTH = 760 };

/* The charts allocate with the command's functions. This program has none of the command's other files. */
static void *require(void *memory) {
    if (!memory) {
        fputs("figure: out of memory\n", stderr);
        exit(1);
    }
    return memory;
}

void *command_allocate(size_t size) {
    return require(calloc(size ? size : 1, 1));
}

void *command_resize(void *memory, size_t size) {
    return require(realloc(memory, size ? size : 1));
}

char *command_copy(const char *text) {
    const size_t size = strlen(text) + 1;
    return (char *)memcpy(command_allocate(size), text, size);
}

typedef struct figure {
    char *title, *description;
    chart_bar bars[MOST_BARS];
    double values[MOST_BARS];
    int colours[MOST_BARS];
    size_t count;
} figure;

/* Takes the next field from a line and terminates it with a zero byte. Returns NULL if there is none. */
static char *next_field(char **line) {
    char *field = *line;
    if (!field)
        return NULL;
    *line = strchr(field, '\t');
    if (*line)
        *(*line)++ = 0;
    return field;
}

static int add_bar(figure *f, char *line) {
    char *label = next_field(&line), *value = next_field(&line), *text = next_field(&line), *colour = next_field(&line);
    const size_t n = f->count;
    if (!colour || n == MOST_BARS)
        return 0;
    f->values[n] = strtod(value, NULL);
    f->colours[n] = atoi(colour);
    f->bars[n].label = command_copy(label);
    f->bars[n].text = command_copy(text);
    f->bars[n].values = &f->values[n];
    f->count++;
    return 1;
}

static int read_line(figure *f, char *line) {
    const char *kind = next_field(&line);
    if (!line)
        return 0;
    if (!strcmp(kind, "bar"))
        return add_bar(f, line);
    if (!strcmp(kind, "title"))
        f->title = command_copy(line);
    else if (!strcmp(kind, "description"))
        f->description = command_copy(line);
    else
        return 0;
    return 1;
}

int main(void) {
    static figure f;
    char line[2000];
    text_buffer t = {NULL, 0, 0};
    chart_bars bars;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (!read_line(&f, line)) {
            fprintf(stderr, "figure: cannot read the line '%s'\n", line);
            return 1;
        }
    }
    memset(&bars, 0, sizeof bars);
    bars.frame.id = "figure";
    bars.frame.title = f.title;
    bars.frame.description = f.description;
    bars.frame.width = WIDTH;
    bars.frame.is_file = 1;
    bars.bars = f.bars;
    bars.bar_count = f.count;
    bars.colours = f.colours;
    bars.segment_count = 1;
    chart_add_bars(&t, &bars);
    return fwrite(t.data, 1, t.size, stdout) != t.size || fflush(stdout) != 0;
}
