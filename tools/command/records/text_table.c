#include "records/text_table.h"

#include "output.h"

/* ---- The width of text ---- */

typedef struct character_range {
    unsigned first, last;
    int width;
} character_range;

/* Characters with a width of 0 or 2 columns (Unicode: combining marks, and East Asian Width W and F). */
static const character_range ranges[] = {
    {0x300, 0x36F, 0},   {0x1100, 0x115F, 2}, {0x200B, 0x200F, 0},   {0x2E80, 0x303E, 2},   {0x3041, 0x4DBF, 2},
    {0x4E00, 0xA4CF, 2}, {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2},   {0xFE00, 0xFE0F, 0},   {0xFE30, 0xFE6F, 2},
    {0xFF00, 0xFF60, 2}, {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1F64F, 2}, {0x1F900, 0x1F9FF, 2}, {0x20000, 0x3FFFD, 2}};

static unsigned read_character(const char *text, int length) {
    static const unsigned char masks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned character = (unsigned char)text[0] & masks[length];
    for (int i = 1; i < length; i++)
        character = character << 6 | ((unsigned char)text[i] & 0x3F);
    return character;
}

/* Returns the width of `text` in columns. */
static int width_of(const char *text) {
    const size_t size = strlen(text);
    int width = 0;
    for (size_t at = 0; at < size;) {
        const int length = text_utf8_length(text + at, size - at);
        const unsigned character = length > 0 ? read_character(text + at, length) : 0;
        int columns = 1;
        for (size_t i = 0; i < COMMAND_COUNT(ranges); i++) {
            if (character >= ranges[i].first && character <= ranges[i].last)
                columns = ranges[i].width;
        }
        width += columns;
        at += length > 0 ? (size_t)length : 1;
    }
    return width;
}

void text_table_add_printable(text_buffer *line, const char *text) {
    const size_t size = strlen(text);
    for (size_t at = 0; at < size;) {
        const int length = text_utf8_length(text + at, size - at);
        const unsigned char first = (unsigned char)text[at];
        const int is_control = first < 0x20 || first == 0x7F || (first == 0xC2 && (unsigned char)text[at + 1] < 0xA0);
        if (length < 1 || is_control)
            text_add(line, "?", 1);
        else
            text_add(line, text + at, (size_t)length);
        at += length > 0 ? (size_t)length : 1;
    }
}

/* ---- Rows ---- */

static table_cell *cells_of(const text_table *t, size_t row) {
    return t->cells + row * t->column_count;
}

static void release_row(text_table *t, size_t row) {
    for (size_t i = 0; i < t->column_count; i++)
        free(cells_of(t, row)[i].text);
    free(t->notes[row]);
}

void text_table_release(text_table *t) {
    for (size_t row = 0; row < t->row_count; row++)
        release_row(t, row);
    for (size_t i = 0; i < t->column_count; i++) {
        free(t->columns[i].title);
        free(t->columns[i].key);
    }
    free(t->columns);
    free(t->cells);
    free(t->notes);
    memset(t, 0, sizeof *t);
}

/* Returns a printable copy of `text`. */
static char *make_printable(const char *text) {
    text_buffer line = {NULL, 0, 0};
    text_add(&line, "", 0);
    text_table_add_printable(&line, text);
    return line.data;
}

void text_table_add_column(text_table *t, const char *title, const char *key, int is_text, int rank) {
    table_column *column;
    t->columns = (table_column *)command_resize(t->columns, (t->column_count + 1) * sizeof *t->columns);
    column = &t->columns[t->column_count++];
    memset(column, 0, sizeof *column);
    column->title = make_printable(title);
    column->key = command_copy(key);
    column->is_text = is_text;
    column->rank = rank;
    column->width = width_of(column->title);
}

table_cell *text_table_add_row(text_table *t) {
    if (t->row_count == t->capacity) {
        t->capacity = 2 * t->capacity + 16;
        t->cells = (table_cell *)command_resize(t->cells, t->capacity * t->column_count * sizeof *t->cells);
        t->notes = (char **)command_resize(t->notes, t->capacity * sizeof *t->notes);
    }
    memset(cells_of(t, t->row_count), 0, t->column_count * sizeof *t->cells);
    t->notes[t->row_count] = NULL;
    return cells_of(t, t->row_count++);
}

void text_table_add_note(text_table *t, const char *line) {
    text_table_add_row(t);
    t->notes[t->row_count - 1] = make_printable(line);
}

void text_table_set_text(table_cell *cell, const char *text) {
    free(cell->text);
    cell->text = command_copy(text);
    cell->value = (double)NAN;
}

void text_table_set_number(table_cell *cell, double value, const char *text) {
    if (!isfinite(value))
        return;
    text_table_set_text(cell, text);
    cell->value = value;
}

static int is_number(const table_cell *cell) {
    return cell->text && isfinite(cell->value);
}

/* ---- Lines ---- */

static void pad(text_buffer *line, int count) {
    for (int i = 0; i < count; i++)
        text_add(line, " ", 1);
}

static void add_aligned(text_buffer *line, const table_column *column, const char *text, int is_last) {
    char *printable = make_printable(text);
    const int space = column->width - width_of(printable);
    pad(line, column->is_text ? 0 : space);
    text_format(line, "%s", printable);
    pad(line, !column->is_text || is_last ? 0 : space);
    free(printable);
}

/* Adds the header or a row. */
static void add_line(const text_table *t, const table_cell *cells, text_buffer *line) {
    size_t last = 0, begin = line->size;
    for (size_t i = 0; i < t->column_count; i++)
        last = t->columns[i].is_hidden ? last : i;
    for (size_t i = 0; i <= last && i < t->column_count; i++) {
        const char *text = cells ? cells[i].text : t->columns[i].title;
        if (t->columns[i].is_hidden)
            continue;
        if (line->size > begin)
            text_format(line, "  ");
        add_aligned(line, &t->columns[i], text ? text : "", i == last);
    }
    while (line->size > begin && line->data[line->size - 1] == ' ')
        line->data[--line->size] = 0;
    text_format(line, "\n");
}

/* Computes widths from the rows, and the columns that fit. */
static void fit(text_table *t, int columns) {
    for (size_t row = 0; row < t->row_count; row++) {
        for (size_t i = 0; i < t->column_count && !t->notes[row]; i++) {
            const char *text = cells_of(t, row)[i].text;
            const int width = text ? width_of(text) : 0;
            t->columns[i].width = width > t->columns[i].width ? width : t->columns[i].width;
        }
    }
    while (columns) {
        table_column *worst = NULL;
        int width = -2;
        for (size_t i = 0; i < t->column_count; i++) {
            table_column *column = &t->columns[i];
            width += column->is_hidden ? 0 : column->width + 2;
            if (!column->is_hidden && column->rank && (!worst || column->rank >= worst->rank))
                worst = column;
        }
        if (width < columns || !worst)
            break;
        worst->is_hidden = 1;
    }
}

/* ---- Choosing and sorting ---- */

static int has_word(const char *text, const char *word) {
    const size_t size = strlen(word);
    for (; *text; text++) {
        size_t i = 0;
        while (i < size && text[i] &&
               (text[i] | (text[i] >= 'A' && text[i] <= 'Z') << 5) ==
                   (word[i] | (word[i] >= 'A' && word[i] <= 'Z') << 5))
            i++;
        if (i == size)
            return 1;
    }
    return !size;
}

void text_table_filter(text_table *t, const char *word) {
    size_t kept = 0;
    for (size_t row = 0; row < t->row_count; row++) {
        text_buffer line = {NULL, 0, 0};
        int has;
        add_line(t, cells_of(t, row), &line);
        has = has_word(t->notes[row] ? t->notes[row] : line.data, word);
        text_release(&line);
        if (!has && row >= t->printed) {
            release_row(t, row);
            continue;
        }
        t->notes[kept] = t->notes[row];
        memmove(cells_of(t, kept++), cells_of(t, row), t->column_count * sizeof *t->cells);
    }
    t->row_count = kept;
}

static int compare_cells(const table_cell *a, const table_cell *b, int downwards) {
    int order;
    if (!a->text || !b->text)
        return !a->text - !b->text;
    order = is_number(a) && is_number(b) ? (a->value > b->value) - (a->value < b->value) : strcmp(a->text, b->text);
    return downwards ? -order : order;
}

/* Insertion sort: there are few rows, and equal ones keep their order. */
void text_table_sort(text_table *t, size_t column, int downwards) {
    const size_t size = t->column_count * sizeof *t->cells;
    table_cell *moved = (table_cell *)command_allocate(size);
    for (size_t row = 1; row < t->row_count; row++) {
        size_t to = row;
        memcpy(moved, cells_of(t, row), size);
        for (; to > 0 && compare_cells(&cells_of(t, to - 1)[column], &moved[column], downwards) > 0; to--)
            memcpy(cells_of(t, to), cells_of(t, to - 1), size);
        memcpy(cells_of(t, to), moved, size);
    }
    free(moved);
}

/* ---- CSV and JSON ---- */

/* Points are in single precision: writes the shortest number that reads back as the same float. Integers are exact. */
static void add_number(text_buffer *t, double value) {
    char digits[40];
    if (value >= -9e15 && value <= 9e15 && value == floor(value)) {
        text_format(t, "%.0f", value);
        return;
    }
    snprintf(digits, sizeof digits, "%.12g", value);
    for (int precision = 6; precision <= 9 && (double)(float)value == value; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if ((float)strtod(digits, NULL) == (float)value)
            break;
    }
    text_format(t, "%s", digits);
}

/* Adds a CSV field (RFC 4180). */
static void add_field(text_buffer *t, const char *text) {
    if (!strpbrk(text, ",\"\r\n")) {
        text_format(t, "%s", text);
        return;
    }
    text_format(t, "\"");
    for (; *text; text++)
        text_format(t, *text == '"' ? "\"\"" : "%c", *text);
    text_format(t, "\"");
}

static void add_csv(const text_table *t, const table_cell *cells, text_buffer *line) {
    for (size_t i = 0; i < t->column_count; i++) {
        text_format(line, i ? "," : "");
        if (!cells)
            add_field(line, t->columns[i].key);
        else if (is_number(&cells[i]))
            add_number(line, cells[i].value);
        else if (cells[i].text)
            add_field(line, cells[i].text);
    }
    text_format(line, "\n");
}

void text_table_print(text_table *t, table_format format, int columns) {
    void (*const add)(const text_table *, const table_cell *, text_buffer *) = format == TABLE_CSV ? add_csv : add_line;
    text_buffer lines = {NULL, 0, 0};
    if (!t->has_header) {
        if (format == TABLE_ALIGNED)
            fit(t, columns);
        add(t, NULL, &lines);
    }
    for (size_t row = t->printed; row < t->row_count; row++) {
        if (!t->notes[row])
            add(t, cells_of(t, row), &lines);
        else if (format == TABLE_ALIGNED)
            text_format(&lines, "%s\n", t->notes[row]);
    }
    t->printed = t->row_count;
    t->has_header = 1;
    output_result(lines.data, lines.size);
    text_release(&lines);
}

void text_table_add_json(const text_table *t, text_buffer *json) {
    int is_first = 1;
    text_format(json, "[");
    for (size_t row = 0; row < t->row_count; row++) {
        const table_cell *cells = cells_of(t, row);
        if (t->notes[row])
            continue;
        text_format(json, is_first ? "{" : ", {");
        is_first = 0;
        for (size_t i = 0; i < t->column_count; i++) {
            if (!cells[i].text)
                continue;
            text_json_name(json, t->columns[i].key);
            if (is_number(&cells[i]))
                add_number(json, cells[i].value);
            else
                text_json_string(json, cells[i].text, strlen(cells[i].text));
        }
        text_format(json, "}");
    }
    text_format(json, "]");
}
