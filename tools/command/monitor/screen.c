#include "monitor/screen.h"

/* ---- Characters ---- */

/* Ranges of characters that have the same width on all terminals; others are not drawn. */
static const struct {
    uint32_t first, last;
    int width;
} ranges[] = {
    {0x20, 0x7e, 1},       {0xa1, 0xac, 1},     {0xae, 0x2ff, 1},    {0x370, 0x377, 1},     {0x37a, 0x37f, 1},
    {0x384, 0x482, 1},     {0x48a, 0x52f, 1},   {0x531, 0x556, 1},   {0x561, 0x587, 1},     {0x1e00, 0x1fff, 1},
    {0x2010, 0x2027, 1},   {0x2030, 0x205e, 1}, {0x2070, 0x209c, 1}, {0x20a0, 0x20c0, 1},   {0x2190, 0x21ff, 1},
    {0x2200, 0x22ff, 1},   {0x2500, 0x259f, 1}, {0x3001, 0x3029, 2}, {0x3041, 0x3096, 2},   {0x309b, 0x30ff, 2},
    {0x3105, 0x312f, 2},   {0x3131, 0x318e, 2}, {0x3400, 0x4dbf, 2}, {0x4e00, 0x9ffc, 2},   {0xac00, 0xd7a3, 2},
    {0xf900, 0xfa6d, 2},   {0xff01, 0xff60, 2}, {0xffe0, 0xffe6, 2}, {0x20000, 0x2a6dd, 2}, {0x2a700, 0x2ebe0, 2},
    {0x30000, 0x3134a, 2},
};

/* Returns the columns of a character; 0 if it is not drawn. */
static int character_width(uint32_t character) {
    for (size_t i = 0; i < COMMAND_COUNT(ranges); i++) {
        if (character >= ranges[i].first && character <= ranges[i].last)
            return ranges[i].width;
    }
    return 0;
}

/* Returns the next character of *text and advances past its bytes. */
static uint32_t next_character(const char **text) {
    const unsigned char *at = (const unsigned char *)*text;
    const int length = text_utf8_length(*text, strlen(*text));
    uint32_t character = at[0];
    if (length < 1) {
        *text += length < 0 ? -length : (int)strlen(*text);
        return '?';
    }
    if (length > 1)
        character = at[0] & (0x7fu >> length);
    for (int i = 1; i < length; i++)
        character = character << 6 | (at[i] & 0x3fu);
    *text += length;
    return character;
}

/* Returns the character to draw: a replacement for those that are not drawn. */
static uint32_t drawable(const screen *s, uint32_t character, int *width) {
    const int known = s->unicode || character < 0x80 ? character_width(character) : 0;
    *width = known ? known : 1;
    return known ? character : character == '\n' || character == '\t' ? ' ' : '?';
}

static size_t encode(uint32_t character, char bytes[4]) {
    const size_t size = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = size - 1; i > 0; i--) {
        bytes[i] = (char)(0x80 | (character & 0x3f));
        character >>= 6;
    }
    bytes[0] = (char)(first[size] | character);
    return size;
}

void screen_add_printable(text_buffer *t, const char *text) {
    while (*text) {
        const uint32_t character = next_character(&text);
        const int is_control = character < 0x20 || (character >= 0x7f && character < 0xa0) ||
                               (character >= 0x2028 && character <= 0x202e) || character == 0x200e ||
                               character == 0x200f || (character >= 0x2066 && character <= 0x2069);
        char bytes[4];
        text_add(t, bytes, encode(is_control ? '?' : character, bytes));
    }
}

/* ---- Cells ---- */

void screen_resize(screen *s, int columns, int rows) {
    const size_t count = (size_t)columns * (size_t)rows;
    s->columns = columns;
    s->rows = rows;
    s->cells = (screen_cell *)command_resize(s->cells, count * sizeof *s->cells);
    s->shown = (screen_cell *)command_resize(s->shown, count * sizeof *s->shown);
    s->is_shown = 0;
    screen_clear(s);
}

void screen_release(screen *s) {
    free(s->cells);
    free(s->shown);
    memset(s, 0, sizeof *s);
}

static void set_cell(screen *s, int row, int column, uint32_t character, int style) {
    screen_cell *cell;
    if (row < 0 || row >= s->rows || column < 0 || column >= s->columns)
        return;
    cell = &s->cells[row * s->columns + column];
    cell->character = character;
    cell->style = (uint8_t)style;
}

void screen_clear(screen *s) {
    for (int i = 0; i < s->rows * s->columns; i++)
        set_cell(s, i / s->columns, i % s->columns, ' ', STYLE_PLAIN);
}

int screen_columns(const screen *s, const char *text) {
    int columns = 0, width;
    while (*text) {
        drawable(s, next_character(&text), &width);
        columns += width;
    }
    return columns;
}

int screen_put(screen *s, int row, int column, int end, int style, const char *text) {
    int last;
    end = end < s->columns ? end : s->columns;
    if (column >= end)
        return column;
    last = screen_columns(s, text) > end - column ? end - 1 : end;
    while (*text) {
        int width;
        const uint32_t character = drawable(s, next_character(&text), &width);
        if (column + width > last)
            break;
        set_cell(s, row, column, character, style);
        if (width == 2)
            set_cell(s, row, column + 1, 0, style);
        column += width;
    }
    if (last < end)
        screen_put_symbol(s, row, column++, style, SYMBOL_CUT);
    return column;
}

int screen_put_right(screen *s, int row, int column, int end, int style, const char *text) {
    const int first = end - screen_columns(s, text);
    column = first > column ? first : column;
    screen_put(s, row, column, end, style, text);
    return column;
}

void screen_put_symbol(screen *s, int row, int column, int style, screen_symbol symbol) {
    static const uint32_t symbols[][2] = {{'-', 0x2500}, {'.', 0x2500}, {'~', 0x2026}, {'|', 0xb7}, {'-', 0x2013}};
    set_cell(s, row, column, symbols[symbol][s->unicode != 0], style);
}

void screen_fill_up(screen *s, int row, int column, int style, int eighths) {
    static const char plain[] = " ...::::#";
    if (eighths > 0)
        set_cell(s, row, column, s->unicode ? 0x2580u + (uint32_t)eighths : (unsigned char)plain[eighths], style);
}

void screen_fill_right(screen *s, int row, int column, int style, int eighths) {
    if (eighths > 0)
        set_cell(s, row, column, s->unicode ? 0x2590u - (uint32_t)eighths : eighths > 3 ? '#' : '=', style);
}

/* ---- Output to the terminal ---- */

static void add_style(text_buffer *output, const screen *s, int style) {
    static const char *const colours[] = {"", ";31", ";32", ";33", ";36", "", "", ""};
    text_format(output, "\033[0%s%s%s%sm", style & STYLE_BOLD ? ";1" : "", style & STYLE_FAINT ? ";2" : "",
                style & STYLE_REVERSE ? ";7" : "", s->colours ? colours[(style & STYLE_COLOURS) / STYLE_RED] : "");
}

static int same_cell(const screen_cell *a, const screen_cell *b) {
    return a->character == b->character && a->style == b->style;
}

/* Writes the cells from `first` to `last`. Repositions the cursor after a wide character, so that a terminal that
   treats it as narrow shows one character wrongly rather than a line. */
static void add_cells(text_buffer *output, const screen *s, int row, int first, int last, int *style) {
    const screen_cell *cells = s->cells + row * s->columns;
    int is_placed = 0;
    for (int column = first; column <= last; column++) {
        char bytes[4];
        if (!cells[column].character) {
            is_placed = 0;
            continue;
        }
        if (!is_placed)
            text_format(output, "\033[%d;%dH", row + 1, column + 1);
        is_placed = 1;
        if (cells[column].style != *style)
            add_style(output, s, cells[column].style);
        *style = cells[column].style;
        text_add(output, bytes, encode(cells[column].character, bytes));
    }
}

void screen_update(screen *s, text_buffer *output) {
    int style = -1;
    if (!s->is_shown)
        text_format(output, "\033[0m\033[2J");
    for (int row = 0; row < s->rows; row++) {
        const screen_cell *cells = s->cells + row * s->columns, *shown = s->shown + row * s->columns;
        int first = 0, last = s->columns - 1;
        while (s->is_shown && first <= last && same_cell(&cells[first], &shown[first]))
            first++;
        while (s->is_shown && last > first && same_cell(&cells[last], &shown[last]))
            last--;
        /* Wide characters are written and overwritten as a whole. */
        while (first > 0 && first <= last && (!cells[first].character || !shown[first].character))
            first--;
        while (last >= first && last + 1 < s->columns && (!cells[last + 1].character || !shown[last + 1].character))
            last++;
        if (first <= last)
            add_cells(output, s, row, first, last, &style);
    }
    memcpy(s->shown, s->cells, (size_t)s->rows * (size_t)s->columns * sizeof *s->cells);
    s->is_shown = 1;
}
