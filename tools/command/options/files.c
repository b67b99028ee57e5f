/* Options in configuration files, in run.json, in --print-config and in --help. */
#include "files.h"
#include "options/foreign_names.h"
#include "options/json.h"
#include "options/table.h"
#include "options/yaml.h"
#include "output.h"
#include "wording.h"

enum { RECORD_LIMIT = 1 << 20 /* bytes of a file, the same limit as in json_read_file */ };

/* ---- Files of options ---- */

typedef struct config_reader {
    option_set *o;
    const char *path, *section;
    option_source source;
    size_t lines[OPTION_CAPACITY];  /* line at which each option was set */
    char *paths[OPTION_CAPACITY];   /* name with its sections; NULL: not set */
    const config_name *reported[8]; /* entries for whole sections that were reported */
    /* For a list that sets several options: its line, its number of values, and the number still missing. */
    size_t list_line, list_size, list_missing;
    char list_name[64];
} config_reader;

/* The option that a value in a file sets, and the value it gets. */
typedef struct config_meaning {
    option_id id;      /* OPTION_CAPACITY: unknown name */
    const char *text;  /* NULL: sets nothing */
    int is_own_option; /* an element of a list that sets several options */
    int is_weak;       /* SOURCE_SUGGESTION */
    char held[400];    /* storage for text, if needed */
} config_meaning;

/* True for the first value to which an entry for a whole section applies. */
static int is_unreported(config_reader *reader, const config_name *entry) {
    for (size_t i = 0; i < COMMAND_COUNT(reader->reported); i++) {
        if (reader->reported[i] == entry)
            return 0;
        if (!reader->reported[i]) {
            reader->reported[i] = entry;
            break;
        }
    }
    return 1;
}

/* Warns that a name has no effect, and why: once per list, and once per section for a whole-section entry. */
static void report_no_effect(config_reader *reader, const config_name *entry, const json_value *value) {
    const char *name = value->name;
    size_t size = strlen(name);
    if (value->boolean && !strcmp(value->boolean, "false")) /* off anyway */
        return;
    if (!strcmp(entry->names, "*")) {
        if (!is_unreported(reader, entry))
            return;
        name = config_section_of(entry, value->path, &size);
    }
    if (!value->index)
        output_warning("%.*s has no effect: %s", (int)size, name, entry->reason);
}

/* Sets batch-size x grad-accum; options_reconcile divides it into the two. */
static eitp_status read_step_sequences(config_reader *reader, const json_value *value, const char *where,
                                       config_meaning *meaning, eitp_error *error) {
    option_set scratch;
    eitp_status status;
    options_create(&scratch, reader->o->name, reader->o->command);
    status = options_set(&scratch, OPTION_BATCH_SIZE, value->text, SOURCE_CONFIG, where, error);
    if (status)
        status = command_fail(error, EITP_ERROR_FORMAT, "%s%s must be a whole number of sequences (got '%s')", where,
                              value->name, value->text);
    reader->o->step_sequences = options_integer(&scratch, OPTION_BATCH_SIZE);
    snprintf(reader->o->step_sequences_place, sizeof reader->o->step_sequences_place, "%s", where);
    options_release(&scratch);
    meaning->text = NULL;
    return status;
}

/* Reads a value whose name is in the table of options/foreign_names.c. */
static eitp_status read_entry(config_reader *reader, const config_name *entry, const json_value *value,
                              const char *where, config_meaning *meaning, eitp_error *error) {
    const char *replaced;
    char option[64];
    size_t size, count;
    if (!entry->option) {
        report_no_effect(reader, entry, value);
        meaning->text = NULL;
        return EITP_OK;
    }
    if (!strcmp(entry->option, CONFIG_REFUSED)) {
        meaning->text = NULL;
        return config_meaning_of(entry, value->text, &size)
                   ? EITP_OK
                   : command_fail(error, EITP_ERROR_FORMAT, "%s%s %s is not supported: %s", where, value->name,
                                  value->text, entry->reason);
    }
    if (!strcmp(entry->option, CONFIG_STEP_SEQUENCES))
        return read_step_sequences(reader, value, where, meaning, error);
    count = config_option_count(entry);
    meaning->is_own_option = count > 1;
    if (count > 1 && (!value->in_array || value->index >= count))
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes a list of %zu values", where, value->name, count);
    if (count > 1) {
        reader->list_line = value->line;
        reader->list_size = count;
        reader->list_missing = count - value->index - 1;
        snprintf(reader->list_name, sizeof reader->list_name, "%s", value->name);
    }
    config_option(entry, count > 1 ? value->index : 0, option, sizeof option);
    meaning->id = option_find(option).id;
    replaced = config_meaning_of(entry, value->text, &size);
    if (!replaced && value->boolean)
        replaced = config_meaning_of(entry, value->boolean, &size);
    if (replaced) {
        meaning->is_weak = *replaced == '~';
        snprintf(meaning->held, sizeof meaning->held, "%.*s", (int)size - meaning->is_weak,
                 replaced + meaning->is_weak);
        meaning->text = *meaning->held ? meaning->held : NULL;
    }
    return EITP_OK;
}

/* Looks first at entries for the value's section, then at options and their aliases, then at entries without a
   section. */
static eitp_status read_meaning(config_reader *reader, const json_value *value, const char *where,
                                config_meaning *meaning, eitp_error *error) {
    const config_name *entry = config_find_in_section(value->path);
    const option_name found = option_find(value->name);
    int is_on;
    memset(meaning, 0, sizeof *meaning);
    meaning->text = value->text;
    meaning->id = entry ? OPTION_CAPACITY : found.id;
    if (!entry && meaning->id == OPTION_CAPACITY)
        entry = config_find_anywhere(value->path);
    if (entry)
        return read_entry(reader, entry, value, where, meaning, error);
    if (!*found.on)
        return EITP_OK;
    if (!value->boolean)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s must be true or false (got '%s')", where, value->name,
                            value->text);
    is_on = !strcmp(value->boolean, "true");
    meaning->is_weak = !is_on || found.is_on_weak;
    snprintf(meaning->held, sizeof meaning->held, "%s", is_on ? found.on : found.off);
    meaning->text = *meaning->held ? meaning->held : NULL;
    return EITP_OK;
}

/* Spells a value as options_set expects it: choices in lower case, booleans as true or false. */
static void spell_value(const json_value *value, config_meaning *meaning) {
    const option_entry *row = option_of(meaning->id);
    if (meaning->text != value->text)
        return;
    if (row->kind == KIND_FLAG && value->boolean)
        meaning->text = value->boolean;
    if (row->kind != KIND_CHOICE || option_find_value(row, value->text) >= 0)
        return;
    snprintf(meaning->held, sizeof meaning->held, "%s", value->text);
    for (char *at = meaning->held; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    if (option_find_value(row, meaning->held) >= 0)
        meaning->text = meaning->held;
    else if (value->boolean)
        meaning->text = value->boolean;
}

/* True for options with comma-separated names, which may be lists in a file. */
static int is_joined(option_id id) {
    return id == OPTION_LORA_TARGETS || id == OPTION_LORA_MODULES_TO_SAVE || id == OPTION_FREEZE ||
           id == OPTION_REPORT_TO;
}

/* True for a boolean where text is expected. Numbers may be text, such as the name of a directory. */
static int has_wrong_type(const option_entry *row, const json_value *value, const config_meaning *meaning) {
    return meaning->text == value->text && value->kind == JSON_BOOLEAN &&
           (row->kind == KIND_TEXT || row->kind == KIND_LIST);
}

/* Fails if another file has set the option to a different value. */
static eitp_status check_other_file(config_reader *reader, option_id id, const char *text, const char *where,
                                    eitp_error *error) {
    const option_value *other = &reader->o->values[id];
    option_set scratch;
    eitp_status status;
    if (other->source != reader->source || reader->lines[id] || reader->source != SOURCE_CONFIG ||
        option_of(id)->kind == KIND_LIST)
        return EITP_OK;
    options_create(&scratch, reader->o->name, reader->o->command);
    status = options_set(&scratch, id, text, reader->source, where, error);
    if (!status && !options_same_value(&scratch.values[id], other))
        status = command_fail(error, EITP_ERROR_FORMAT, "%s%s %s conflicts with %s %s at %s; remove one", where,
                              options_name(id), text, options_name(id), other->texts[0], other->place);
    options_release(&scratch);
    return status;
}

/* Fails because a file sets an option twice, by the same name or by two names. */
static eitp_status fail_set_twice(const config_reader *reader, option_id id, const json_value *value, const char *where,
                                  eitp_error *error) {
    const char *first = reader->paths[id];
    if (!strcmp(first, value->path))
        return command_fail(error, EITP_ERROR_FORMAT, "%s'%s' is given twice, first in line %zu; remove one", where,
                            first, reader->lines[id]);
    return command_fail(error, EITP_ERROR_FORMAT, "%s'%s' and '%s' (line %zu) both set --%s; remove one", where,
                        value->path, first, reader->lines[id], options_name(id));
}

static eitp_status set_config_value(config_reader *reader, const json_value *value, const char *where,
                                    config_meaning *meaning, eitp_error *error) {
    option_id id = meaning->id;
    char *joined = NULL;
    eitp_status status;
    if (value->in_array && option_of(id)->kind != KIND_LIST && !is_joined(id) && !meaning->is_own_option)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes one value, not a list", where, value->name);
    if (has_wrong_type(option_of(id), value, meaning))
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s must be text (got %s)", where, value->name, value->text);
    if (meaning->is_weak)
        return options_set(reader->o, id, meaning->text,
                           reader->source == SOURCE_CONFIG ? SOURCE_SUGGESTION : reader->source, where, error);
    if (reader->lines[id] && (!value->index || meaning->is_own_option))
        return fail_set_twice(reader, id, value, where, error);
    status = option_check_name(value->name, value->text, where, error);
    if (status)
        return status;
    spell_value(value, meaning);
    if (is_joined(id) && value->index && options_has(reader->o, id))
        joined = command_format("%s,%s", options_text(reader->o, id), meaning->text);
    status = check_other_file(reader, id, joined ? joined : meaning->text, where, error);
    if (!status)
        status = options_set(reader->o, id, joined ? joined : meaning->text, reader->source, where, error);
    reader->lines[id] = value->line;
    if (!reader->paths[id])
        reader->paths[id] = command_copy(value->path);
    free(joined);
    return status;
}

#define DEEPSPEED "deepspeed."

static int in_deepspeed(const json_value *value) {
    return !strncmp(value->path, DEEPSPEED, strlen(DEEPSPEED));
}

/* True for the parts of a DeepSpeed configuration that eitp reads: values without a section, and these sections. */
static int is_read_deepspeed(const char *path) {
    static const char *const sections[] = {"optimizer.", "scheduler.",         "fp16.", "bf16.",
                                           "bfloat16.",  "zero_optimization.", "amp."};
    const char *inner = path + strlen(DEEPSPEED);
    int is_read = !strchr(inner, '.');
    for (size_t i = 0; i < COMMAND_COUNT(sections); i++)
        is_read |= !strncmp(inner, sections[i], strlen(sections[i]));
    return is_read;
}

/* Reports a value of a DeepSpeed configuration that sets nothing. "auto" means eitp's default and is not reported. */
static eitp_status report_deepspeed(const json_value *value) {
    if (strcmp(value->text, "auto") && !value->index)
        output_warning("%s has no effect: eitp has no equivalent", value->path + strlen(DEEPSPEED));
    return EITP_OK;
}

static eitp_status read_placed_value(config_reader *reader, const json_value *value, const char *where,
                                     eitp_error *error) {
    config_meaning meaning;
    const int is_deepspeed = in_deepspeed(value);
    eitp_status status;
    reader->o->has_deepspeed |= is_deepspeed;
    if (is_deepspeed && (!strcmp(value->text, "auto") || !is_read_deepspeed(value->path)))
        return report_deepspeed(value);
    status = read_meaning(reader, value, where, &meaning, error);
    if (status || !meaning.text)
        return status;
    if (is_deepspeed && meaning.id == OPTION_CAPACITY)
        return report_deepspeed(value);
    if (meaning.id == OPTION_CAPACITY || meaning.id == OPTION_CONFIG || meaning.id == OPTION_HELP)
        return option_fail_unknown(reader->o, value->name, where, error);
    if (value->kind == JSON_EMPTY_LIST)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s is an empty list; give a value, or remove it", where,
                            value->name);
    /* One file may serve several commands. A generic name in an object, such as "type", belongs to another program. */
    if (!(option_of(meaning.id)->commands & reader->o->command))
        return meaning.id == OPTION_TYPE && strchr(value->path, '.')
                   ? option_fail_unknown(reader->o, value->name, where, error)
                   : EITP_OK;
    return set_config_value(reader, value, where, &meaning, error);
}

/* A list must set all of its options: a shorter one would be ambiguous. */
static eitp_status check_list(const config_reader *reader, eitp_error *error) {
    return reader->list_missing ? command_fail(error, EITP_ERROR_FORMAT, "%.300s:%zu: %s takes a list of %zu values",
                                               reader->path, reader->list_line, reader->list_name, reader->list_size)
                                : EITP_OK;
}

static eitp_status read_config_value(void *user, const json_value *value, eitp_error *error) {
    config_reader *reader = (config_reader *)user;
    char where[400], *path;
    json_value placed = *value;
    eitp_status status = value->in_array && value->index ? EITP_OK : check_list(reader, error);
    if (status)
        return status;
    if (value->kind == JSON_NULL)
        return EITP_OK;
    if (reader->source == SOURCE_RUN) {
        const option_id recorded = option_find(value->name).id;
        if (recorded == OPTION_CAPACITY || !option_of(recorded)->of_run)
            return EITP_OK;
    }
    snprintf(where, sizeof where, "%.300s:%zu: ", reader->path, value->line);
    path = reader->section ? command_format("%s.%s", reader->section, value->path) : NULL;
    placed.path = path ? path : value->path;
    status = read_placed_value(reader, &placed, where, error);
    free(path);
    return status;
}

/* True for the run.json of a run. */
static int is_record(const char *path) {
    const eitp_host host = command_host();
    eitp_json_document *document = NULL;
    eitp_error ignored;
    const eitp_json *run;
    int found;
    if (eitp_json_read_file(&host, path, RECORD_LIMIT, &document, &ignored))
        return 0;
    run = eitp_json_member(eitp_json_root(document), "run");
    found = run && eitp_json_member(run, "version") != NULL;
    eitp_json_release(document);
    return found;
}

eitp_status options_read_config(option_set *o, const char *path, const char *section, option_source source,
                                eitp_error *error) {
    config_reader *reader = (config_reader *)command_allocate(sizeof *reader);
    eitp_status status;
    o->has_record |= source == SOURCE_CONFIG && !yaml_is_name(path) && is_record(path);
    reader->o = o;
    reader->path = path;
    reader->section = section;
    reader->source = source;
    status = (yaml_is_name(path) ? yaml_read_file : json_read_file)(path, "run", read_config_value, reader, error);
    if (!status)
        status = check_list(reader, error);
    for (size_t id = 0; id < OPTION_CAPACITY; id++)
        free(reader->paths[id]);
    free(reader);
    return status;
}

static void write_value(const option_entry *row, const option_value *value, size_t index, text_buffer *t) {
    if (row->kind == KIND_FLAG)
        text_format(t, "%s", value->integer ? "true" : "false");
    else if (row->setting->kind == EITP_SETTING_UNSIGNED)
        text_format(t, "%llu", (unsigned long long)value->integer);
    else if (row->kind == KIND_INTEGER)
        text_format(t, "%lld", (long long)value->integer);
    else if (row->kind == KIND_NUMBER)
        text_json_number(t, value->number);
    else if (row->kind == KIND_CHOICE)
        text_json_string(t, value->choice, strlen(value->choice));
    else
        text_json_string(t, value->texts[index], strlen(value->texts[index]));
}

static void write_values(const option_entry *row, const option_value *value, text_buffer *t) {
    if (row->kind != KIND_LIST) {
        write_value(row, value, 0, t);
        return;
    }
    text_add(t, "[", 1);
    for (size_t i = 0; i < value->count; i++) {
        if (i)
            text_add(t, ", ", 2);
        write_value(row, value, i, t);
    }
    text_add(t, "]", 1);
}

/* True for a setting that lists omit while it has its default. */
static int is_left_out(const option_entry *row, const option_value *value) {
    const eitp_setting *setting = row->setting;
    const double is = row->kind == KIND_NUMBER ? value->number : (double)value->integer;
    return (setting->flags & EITP_SETTING_MINOR) && !(fabs(is - setting->value) > 0);
}

void options_write(const option_set *o, text_buffer *t) {
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        if (!option_of(i)->of_run || !(option_of(i)->commands & o->command) || !o->values[i].count ||
            is_left_out(option_of(i), &o->values[i]))
            continue;
        text_json_name(t, option_of(i)->name);
        write_values(option_of(i), &o->values[i], t);
    }
}

/* In the order of option_source. */
static const char *const source_names[] = {"not set",      "default", "profile",     "run.json",     "checkpoint",
                                           "command line", "config",  "environment", "command line", "command line"};

/* Writes the source of a value, and its place if it has one. A suggestion with a place is from a file. */
static void write_source(const option_value *value, int json, text_buffer *t) {
    const int is_of_file = value->source == SOURCE_SUGGESTION && *value->place;
    const char *name = source_names[is_of_file ? SOURCE_CONFIG : value->source];
    if (!json) {
        text_format(t, "  (%s)\n", *value->place ? value->place : name);
        return;
    }
    text_json_member_string(t, "source", name);
    if (*value->place)
        text_json_member_string(t, "place", value->place);
    text_format(t, "}");
}

void options_print(const option_set *o, int json) {
    text_buffer t = {NULL, 0, 0};
    if (json)
        text_add(&t, "{", 1);
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        const option_value *value = &o->values[i];
        if (!(option_of(i)->commands & o->command) || i == OPTION_HELP || i == OPTION_PRINT_CONFIG)
            continue;
        if (!json && !options_is_explicit(o, i) && is_left_out(option_of(i), value))
            continue;
        if (json) {
            text_json_name(&t, option_of(i)->name);
            text_format(&t, "{\"value\": ");
        } else {
            text_format(&t, "%-18s ", option_of(i)->name);
        }
        if (value->count)
            write_values(option_of(i), value, &t);
        else
            text_format(&t, json ? "null" : "-");
        write_source(value, json, &t);
    }
    if (json)
        text_format(&t, "}\n");
    output_start();
    output_result(t.data, t.size);
    text_release(&t);
}

/* The right column of the help, wrapped between words. */
typedef struct help_column {
    text_buffer *t;
    size_t columns, indent; /* width of the terminal, 0: unlimited; start of the column */
    size_t used;            /* columns used on this line */
} help_column;

static void indent_line(help_column *h) {
    text_format(h->t, "\n%*s", (int)h->indent, "");
    h->used = h->indent;
}

/* Starts with the left column, on a separate line if the terminal is narrow or the column is too long. */
static void begin_help(help_column *h, const char *left) {
    const size_t before = h->t->size;
    h->indent = h->columns && h->columns < 70 ? 6 : 35;
    text_format(h->t, "  %-*s", (int)h->indent - 3, left);
    h->used = h->t->size - before;
    if (*left && (h->indent == 6 || strlen(left) > h->indent - 3))
        indent_line(h);
}

static void add_help_words(help_column *h, const char *words) {
    while (*words) {
        const size_t size = strcspn(words, " ");
        if (h->columns && h->used > h->indent && h->used + 1 + size >= h->columns)
            indent_line(h);
        if (h->used != h->indent) {
            text_add(h->t, " ", 1);
            h->used++;
        }
        text_add(h->t, words, size);
        h->used += size;
        words += size + (words[size] == ' ');
    }
}

static void print_option_help(const option_entry *row, const char *library_help, help_column *h) {
    char argument[100], text[160], help[2000];
    wording_translate(library_help, WORDING_LIBRARY, help, sizeof help);
    if (row->kind == KIND_CHOICE)
        option_list_choices(row->setting->choices, "|", "|", argument, sizeof argument);
    else
        snprintf(argument, sizeof argument, "%s", row->words);
    snprintf(text, sizeof text, "--%s%s%s", row->name, *argument ? " " : "", argument);
    begin_help(h, text);
    add_help_words(h, help);
    *text = 0;
    if (row->has_fallback && row->kind != KIND_FLAG && !strstr(help, "(required)") && !strstr(help, "(default: "))
        snprintf(text, sizeof text, "(default: %s)", row->fallback);
    else if (row->has_fallback && row->kind == KIND_FLAG && strchr("1t", *row->fallback))
        snprintf(text, sizeof text, "(default; --no-%s turns it off)", row->name);
    add_help_words(h, text);
    text_format(h->t, "\n");
    if (*row->aliases) {
        const char *list = row->aliases, *word;
        size_t size;
        begin_help(h, "");
        add_help_words(h, "also:");
        while (option_next_word(&list, &word, &size)) {
            snprintf(text, sizeof text, "--%.*s", (int)strcspn(word, "= "), word);
            add_help_words(h, text);
        }
        text_format(h->t, "\n");
    }
}

void options_print_help(const char *name, unsigned command) {
    text_buffer t = {NULL, 0, 0};
    help_column h = {&t, (size_t)output_columns(stdout), 0, 0};
    text_format(&t, "usage: eitp %s [options]%s\n\n", name,
                command == OPTIONS_TOKENIZER_DECODE ? " [ID ...]"
                : command == OPTIONS_SET            ? " DIR NAME=VALUE ..."
                : command == OPTIONS_MONITOR        ? " [DIR ...]"
                : command & OPTIONS_INSPECT         ? " DIR ..."
                : command == OPTIONS_SAFE_TRAIN     ? " -- train [options] | PROGRAM ..."
                                                    : "");
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        const eitp_setting *setting = option_of(i)->setting;
        if ((option_of(i)->commands & command) && !(setting->flags & EITP_SETTING_DETAIL))
            print_option_help(option_of(i), option_help(i, command), &h);
    }
    text_format(&t, "\n");
    h.used = h.indent = 0;
    add_help_words(&h, "--name VALUE or --name=VALUE; - and _ are the same. Flags: --name, --name false, --no-name.");
    text_format(&t, "\n");
    output_result(t.data, t.size);
    text_release(&t);
}
