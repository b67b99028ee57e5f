#include "options/yaml.h"

#include "files.h"

#include <dlfcn.h>
#include <stdarg.h>

enum { YAML_LARGEST_FILE = 1 << 20, YAML_DEEPEST = 16, YAML_MOST_NAMES = 4096 };

/* ---- libyaml ---- */

/* The part of libyaml's ABI that eitp uses. It is the same in 0.1 and 0.2, so yaml.h need not be installed. */

enum { YAML_MEMORY_ERROR = 1, YAML_READER_ERROR = 2 };

enum {
    YAML_STREAM_END = 2,
    YAML_DOCUMENT_START = 3,
    YAML_ALIAS = 5,
    YAML_SCALAR = 6,
    YAML_SEQUENCE_START = 7,
    YAML_SEQUENCE_END = 8,
    YAML_MAPPING_START = 9,
    YAML_MAPPING_END = 10
};

enum { YAML_STYLE_PLAIN = 1 };

typedef struct yaml_mark {
    size_t index, line, column; /* from 0 */
} yaml_mark;

typedef struct yaml_parser {
    int error;
    const char *problem;
    size_t problem_offset; /* in bytes, of a reader error */
    int problem_value;
    yaml_mark problem_mark;
    const char *context;
    yaml_mark context_mark;
    unsigned char rest[4096]; /* libyaml 0.2 needs 480 bytes in total on a 64-bit machine */
} yaml_parser;

typedef struct yaml_event {
    int type;
    struct {
        const char *anchor; /* of an alias: its name */
        const char *tag;    /* of scalars, sequences and mappings; the members below apply to scalars */
        const char *value;
        size_t size;
        int plain_implicit, quoted_implicit, style;
    } data;
    yaml_mark start, end;
    unsigned char rest[256];
} yaml_event;

typedef struct yaml_library {
    void *handle;
    void (*version)(int *major, int *minor, int *patch);
    int (*initialize)(yaml_parser *parser);
    void (*set_input)(yaml_parser *parser, const unsigned char *data, size_t size);
    int (*parse)(yaml_parser *parser, yaml_event *event);
    void (*delete_event)(yaml_event *event);
    void (*delete_parser)(yaml_parser *parser);
} yaml_library;

/* Stores the address of a library function in `function`; ISO C cannot convert it. */
static int yaml_find(const yaml_library *library, const char *name, void *function) {
    void *address = dlsym(library->handle, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static int yaml_find_all(yaml_library *library) {
    int major = 0, minor = 0, patch = 0;
    if (!yaml_find(library, "yaml_get_version", &library->version) ||
        !yaml_find(library, "yaml_parser_initialize", &library->initialize) ||
        !yaml_find(library, "yaml_parser_set_input_string", &library->set_input) ||
        !yaml_find(library, "yaml_parser_parse", &library->parse) ||
        !yaml_find(library, "yaml_event_delete", &library->delete_event) ||
        !yaml_find(library, "yaml_parser_delete", &library->delete_parser))
        return 0;
    library->version(&major, &minor, &patch);
    return major == 0 && (minor == 1 || minor == 2);
}

static eitp_status yaml_open(yaml_library *library, const char *path, eitp_error *error) {
    const char *chosen = getenv("EITP_LIBYAML");
#ifdef __APPLE__
    const char *name = "libyaml-0.2.dylib";
#else
    const char *name = "libyaml-0.so.2";
#endif
    if (chosen && *chosen)
        name = chosen;
    library->handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return command_fail(error, EITP_ERROR_UNSUPPORTED,
                            "%.150s: reading YAML needs libyaml, and '%.150s' cannot be opened; install libyaml (on "
                            "Debian the package libyaml-0-2), or write the file as JSON",
                            path, name);
    if (yaml_find_all(library))
        return EITP_OK;
    dlclose(library->handle);
    return command_fail(error, EITP_ERROR_UNSUPPORTED,
                        "%.150s: reading YAML needs libyaml 0.1 or 0.2, and '%.150s' is another library; write the "
                        "file as JSON, or correct EITP_LIBYAML",
                        path, name);
}

/* ---- Errors ---- */

typedef struct yaml_reader {
    const char *path;
    text_buffer content;
    yaml_library library;
    yaml_parser parser;
    yaml_event event; /* the current event */
    int depth;
    text_buffer name; /* path of the member being read */
    size_t name_at;   /* offset of the member's own name */
    const char *skipped;
    int skipping;
    json_visitor visit;
    void *user;
    eitp_error *error;
} yaml_reader;

static eitp_status yaml_fail(const yaml_reader *r, size_t line, const char *format, ...) COMMAND_PRINTF(3, 4);

static eitp_status yaml_fail(const yaml_reader *r, size_t line, const char *format, ...) {
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return command_fail(r->error, EITP_ERROR_FORMAT, "%.250s:%zu: %s", r->path, line, what);
}

static size_t yaml_line(const yaml_reader *r) {
    return r->event.start.line + 1;
}

static size_t yaml_line_of_byte(const yaml_reader *r, size_t offset) {
    size_t line = 1;
    for (size_t i = 0; i < offset && i < r->content.size; i++)
        line += r->content.data[i] == '\n';
    return line;
}

static int yaml_has_tab(const yaml_reader *r, size_t line) {
    const char *at = r->content.data;
    for (; line > 1 && (at = strchr(at, '\n')) != NULL; line--)
        at++;
    return at && at[strspn(at, " ")] == '\t';
}

/* Fails with the problem reported by libyaml. */
static eitp_status yaml_problem(const yaml_reader *r) {
    const yaml_parser *p = &r->parser;
    const char *problem = p->problem ? p->problem : "it cannot be parsed";
    size_t line = p->problem_mark.line + 1;
    if (p->error == YAML_MEMORY_ERROR)
        return command_fail(r->error, EITP_ERROR_MEMORY, "out of memory; close other programs");
    if (p->error == YAML_READER_ERROR)
        return yaml_fail(r, yaml_line_of_byte(r, p->problem_offset), "not valid YAML: %s", problem);
    if (yaml_has_tab(r, line))
        return yaml_fail(r, line, "not valid YAML: the line is indented with a tab; use spaces");
    if (!p->context)
        return yaml_fail(r, line, "not valid YAML: %s", problem);
    if (p->context_mark.line + 1 == line)
        return yaml_fail(r, line, "not valid YAML: %s %s", problem, p->context);
    return yaml_fail(r, line, "not valid YAML: %s %s that starts in line %zu", problem, p->context,
                     p->context_mark.line + 1);
}

static eitp_status yaml_next(yaml_reader *r) {
    r->library.delete_event(&r->event);
    return r->library.parse(&r->parser, &r->event) ? EITP_OK : yaml_problem(r);
}

/* ---- Plain values ---- */

static int yaml_is_one_of(const char *text, const char *words) {
    size_t size = strlen(text);
    for (; *words; words += *words == ' ') {
        size_t length = strcspn(words, " ");
        if (length == size && !memcmp(words, text, size))
            return 1;
        words += length;
    }
    return 0;
}

static int yaml_is_decimal(const char *text) {
    static const char digits[] = "0123456789";
    const char *at = text + (*text == '+' || *text == '-');
    size_t whole, fraction = 0;
    if (yaml_is_one_of(at, ".inf .Inf .INF") || yaml_is_one_of(text, ".nan .NaN .NAN"))
        return 1;
    whole = strspn(at, digits);
    at += whole;
    if (*at == '.') {
        fraction = strspn(at + 1, digits);
        at += 1 + fraction;
    }
    if (whole + fraction && (*at == 'e' || *at == 'E')) {
        at += 1 + (at[1] == '+' || at[1] == '-');
        fraction = strspn(at, digits);
        at += fraction;
        return fraction && !*at;
    }
    return whole + fraction && !*at;
}

/* Sets the kind of a plain scalar (YAML 1.2, 10.3.2). A number in base 8 or 16 is written in decimal to `number`. */
static void yaml_resolve(json_value *value, char *number, size_t size) {
    const char *text = value->text;
    int base = !strncmp(text, "0x", 2) ? 16 : !strncmp(text, "0o", 2) ? 8 : 0;
    value->kind = JSON_STRING;
    if (yaml_is_one_of(text, "true True TRUE yes Yes YES on On ON"))
        value->boolean = "true";
    else if (yaml_is_one_of(text, "false False FALSE no No NO off Off OFF"))
        value->boolean = "false";
    if (!*text || yaml_is_one_of(text, "~ null Null NULL")) {
        value->kind = JSON_NULL;
    } else if (value->boolean && yaml_is_one_of(text, "true True TRUE false False FALSE")) {
        value->kind = JSON_BOOLEAN;
        value->text = value->boolean;
    } else if (base && text[2] && !text[2 + strspn(text + 2, base == 8 ? "01234567" : "0123456789abcdefABCDEF")]) {
        value->kind = JSON_NUMBER;
        snprintf(number, size, "%llu", strtoull(text + 2, NULL, base));
        value->text = number;
    } else if (yaml_is_decimal(text)) {
        value->kind = JSON_NUMBER;
    }
}

/* Sets *text to the text of the current scalar. libyaml owns it until the next event. */
static eitp_status yaml_text(const yaml_reader *r, const char **text) {
    *text = r->event.data.value;
    if (memchr(*text, 0, r->event.data.size))
        return yaml_fail(r, yaml_line(r), "text with a zero byte is not supported");
    return EITP_OK;
}

static eitp_status yaml_plain(yaml_reader *r, int in_array, size_t index) {
    const char *tag = r->event.data.tag;
    char number[32];
    json_value value;
    eitp_status status;
    memset(&value, 0, sizeof value);
    status = yaml_text(r, &value.text);
    if (status)
        return status;
    if (tag && !yaml_is_one_of(tag, "! tag:yaml.org,2002:str"))
        return yaml_fail(r, yaml_line(r), "the tag '%s' is not supported; remove it", tag);
    value.path = r->name.data;
    value.name = r->name.data + r->name_at;
    value.kind = JSON_STRING;
    value.in_array = in_array;
    value.index = index;
    value.line = yaml_line(r);
    if (!tag && r->event.data.style == YAML_STYLE_PLAIN)
        yaml_resolve(&value, number, sizeof number);
    return r->skipping ? EITP_OK : r->visit(r->user, &value, r->error);
}

/* ---- Mappings and sequences, from their first event to their last ---- */

static eitp_status yaml_mapping(yaml_reader *r);

static eitp_status yaml_alias(const yaml_reader *r) {
    return yaml_fail(r, yaml_line(r), "aliases are not supported; write the value in place of *%s",
                     r->event.data.anchor);
}

static eitp_status yaml_empty_list(const yaml_reader *r, size_t line) {
    json_value value;
    memset(&value, 0, sizeof value);
    value.path = r->name.data;
    value.name = r->name.data + r->name_at;
    value.kind = JSON_EMPTY_LIST;
    value.text = "[]";
    value.in_array = 1;
    value.line = line;
    return r->skipping ? EITP_OK : r->visit(r->user, &value, r->error);
}

static eitp_status yaml_sequence(yaml_reader *r) {
    const size_t line = yaml_line(r);
    for (size_t index = 0;; index++) {
        eitp_status status = yaml_next(r);
        if (!status && r->event.type == YAML_SEQUENCE_END && !index)
            return yaml_empty_list(r, line);
        if (status || r->event.type == YAML_SEQUENCE_END)
            return status;
        if (r->event.type == YAML_ALIAS)
            return yaml_alias(r);
        if (r->event.type != YAML_SCALAR)
            return yaml_fail(r, yaml_line(r), "a list can hold only plain values");
        status = yaml_plain(r, 1, index);
        if (status)
            return status;
    }
}

/* Reads the value of a member after its name. */
static eitp_status yaml_value(yaml_reader *r) {
    eitp_status status = yaml_next(r);
    if (status)
        return status;
    if (r->event.type == YAML_ALIAS)
        return yaml_alias(r);
    if (r->event.type == YAML_SCALAR)
        return yaml_plain(r, 0, 0);
    if (r->event.data.tag)
        return yaml_fail(r, yaml_line(r), "the tag '%s' is not supported; remove it", r->event.data.tag);
    return r->event.type == YAML_MAPPING_START ? yaml_mapping(r) : yaml_sequence(r);
}

typedef struct yaml_names {
    char **names;
    size_t *lines;
    size_t count;
} yaml_names;

/* Adds a name to its mapping and fails if the mapping has it already. */
static eitp_status yaml_add_name(const yaml_reader *r, yaml_names *names, const char *name) {
    for (size_t i = 0; i < names->count; i++) {
        if (!strcmp(names->names[i], name))
            return yaml_fail(r, yaml_line(r), "'%.100s' is given twice, first in line %zu", name, names->lines[i]);
    }
    if (names->count == YAML_MOST_NAMES)
        return yaml_fail(r, yaml_line(r), "a mapping has more than %d names", (int)YAML_MOST_NAMES);
    names->names = (char **)command_resize(names->names, (names->count + 1) * sizeof *names->names);
    names->lines = (size_t *)command_resize(names->lines, (names->count + 1) * sizeof *names->lines);
    names->names[names->count] = command_copy(name);
    names->lines[names->count++] = yaml_line(r);
    return EITP_OK;
}

static void yaml_release_names(yaml_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    free(names->lines);
}

/* Reads a member; the current event is its name. */
static eitp_status yaml_member(yaml_reader *r, yaml_names *names) {
    int was_skipping = r->skipping;
    size_t outer = r->name.size;
    const char *name;
    eitp_status status;
    if (r->event.type == YAML_ALIAS)
        return yaml_alias(r);
    if (r->event.type != YAML_SCALAR || r->event.data.tag)
        return yaml_fail(r, yaml_line(r), "a name must be text, without a tag");
    if (r->event.data.style == YAML_STYLE_PLAIN && !strcmp(r->event.data.value, "<<"))
        return yaml_fail(r, yaml_line(r), "merge keys (<<) are not supported; write the values themselves");
    status = yaml_text(r, &name);
    if (!status)
        status = yaml_add_name(r, names, name);
    if (status)
        return status;
    r->skipping = was_skipping || (r->depth == 1 && !strcmp(name, r->skipped));
    r->name_at = json_path_enter(&r->name);
    text_add(&r->name, name, strlen(name));
    status = yaml_value(r);
    r->name.size = outer;
    r->skipping = was_skipping;
    return status;
}

static eitp_status yaml_mapping(yaml_reader *r) {
    yaml_names names = {NULL, NULL, 0};
    eitp_status status;
    if (r->depth == YAML_DEEPEST)
        return yaml_fail(r, yaml_line(r), "mappings are nested too deeply (more than %d)", (int)YAML_DEEPEST);
    r->depth++;
    do {
        status = yaml_next(r);
        if (!status && r->event.type == YAML_MAPPING_END)
            break;
        if (!status)
            status = yaml_member(r, &names);
    } while (!status);
    r->depth--;
    yaml_release_names(&names);
    return status;
}

/* ---- Files ---- */

int yaml_is_name(const char *path) {
    size_t size = strlen(path);
    return (size > 5 && !strcmp(path + size - 5, ".yaml")) || (size > 4 && !strcmp(path + size - 4, ".yml"));
}

static eitp_status yaml_check_utf8(const yaml_reader *r) {
    for (size_t at = 0; at < r->content.size;) {
        int length = text_utf8_length(r->content.data + at, r->content.size - at);
        if (length <= 0)
            return yaml_fail(r, yaml_line_of_byte(r, at), "not valid UTF-8");
        at += (size_t)length;
    }
    return EITP_OK;
}

/* Reads the whole stream: one document, which is a mapping. */
static eitp_status yaml_stream(yaml_reader *r) {
    eitp_status status = yaml_next(r);
    if (!status)
        status = yaml_next(r);
    if (!status && r->event.type == YAML_DOCUMENT_START)
        status = yaml_next(r);
    if (!status && (r->event.type != YAML_MAPPING_START || r->event.data.tag))
        status = yaml_fail(r, yaml_line(r), "expected a YAML mapping: lines of \"name: value\"");
    if (!status)
        status = yaml_mapping(r);
    if (!status)
        status = yaml_next(r);
    if (!status)
        status = yaml_next(r);
    if (!status && r->event.type != YAML_STREAM_END)
        status = yaml_fail(r, yaml_line(r), "a second document starts here; only one is supported");
    return status;
}

static eitp_status yaml_parse(yaml_reader *r) {
    eitp_status status;
    if (!r->library.initialize(&r->parser))
        return command_fail(r->error, EITP_ERROR_MEMORY, "out of memory; close other programs");
    r->library.set_input(&r->parser, (const unsigned char *)r->content.data, r->content.size);
    status = yaml_stream(r);
    r->library.delete_event(&r->event);
    r->library.delete_parser(&r->parser);
    return status;
}

eitp_status yaml_read_file(const char *path, const char *skipped, json_visitor visit, void *user, eitp_error *error) {
    yaml_reader *r = (yaml_reader *)command_allocate(sizeof *r);
    eitp_status status;
    r->path = path;
    r->skipped = skipped;
    r->visit = visit;
    r->user = user;
    r->error = error;
    text_add(&r->content, "", 0);
    status = files_read(path, YAML_LARGEST_FILE, &r->content, error);
    if (!status)
        status = yaml_check_utf8(r);
    if (!status)
        status = yaml_open(&r->library, path, error);
    if (!status) {
        status = yaml_parse(r);
        dlclose(r->library.handle);
    }
    text_release(&r->name);
    text_release(&r->content);
    free(r);
    return status;
}
