/* Options in files, in --print-config and in --help. */
#include "command_config.h"
#include "command_json.h"
#include "command_option_table.h"
#include "command_output.h"
#include "command_yaml.h"

/* ---- Files of options ---- */

typedef struct config_reader {
    option_set *o;
    const char *path;
    option_source source;
    size_t lines[OPTION_CAPACITY]; /* where an option was given */
} config_reader;

/* What a value of a file means. */
typedef struct config_meaning {
    option_id id;      /* OPTION_CAPACITY: the name is unknown */
    const char *text;  /* NULL: nothing is to be set */
    int is_own_option; /* an element of a list that is an option of its own */
    char held[400];    /* where text may be */
} config_meaning;

/* The meaning of a name with an entry in the table of configuration names. */
static eitp_status read_entry(const config_name *entry, const json_value *value, const char *where,
                              config_meaning *meaning, eitp_error *error) {
    const char *replaced;
    char option[64], unused[64];
    size_t size, count;
    if (!entry->option) {
        if (!value->index)
            output_warning("%s has no effect: %s", value->name, entry->reason);
        meaning->text = NULL;
        return EITP_OK;
    }
    count = config_option_count(entry);
    meaning->is_own_option = count > 1;
    if (count > 1 && (!value->in_array || value->index >= count))
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes a list of %zu values", where, value->name, count);
    config_option(entry, count > 1 ? value->index : 0, option, sizeof option);
    meaning->id = option_find(option, unused, sizeof unused);
    replaced = config_meaning_of(entry, value->text, &size);
    if (!replaced && value->boolean)
        replaced = config_meaning_of(entry, value->boolean, &size);
    if (replaced) {
        snprintf(meaning->held, sizeof meaning->held, "%.*s", (int)size, replaced);
        meaning->text = size ? meaning->held : NULL;
    }
    return EITP_OK;
}

/* Entries for a value's section come first, then options and their aliases, which apply in any section. */
static eitp_status read_meaning(const json_value *value, const char *where, config_meaning *meaning,
                                eitp_error *error) {
    const config_name *entry = config_find_in_section(value->path);
    int has_value;
    memset(meaning, 0, sizeof *meaning);
    meaning->text = value->text;
    meaning->id = entry ? OPTION_CAPACITY : option_find(value->name, meaning->held, sizeof meaning->held);
    if (!entry && meaning->id == OPTION_CAPACITY)
        entry = config_find_anywhere(value->path);
    if (entry)
        return read_entry(entry, value, where, meaning, error);
    if (meaning->id == OPTION_CAPACITY && option_find_ignored(value->name, &has_value))
        meaning->text = NULL;
    if (!*meaning->held)
        return EITP_OK;
    /* An alias that stands for a value of an option: false says nothing. */
    if (!value->boolean)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s must be true or false", where, value->name);
    meaning->text = strcmp(value->boolean, "true") ? NULL : meaning->held;
    return EITP_OK;
}

/* Spells a value as options_set expects it: choices in lower case, flags and some choices as true or false. */
static void spell_value(const json_value *value, config_meaning *meaning) {
    const option_entry *row = option_of(meaning->id);
    if (meaning->text != value->text)
        return;
    if (row->kind == KIND_FLAG && value->boolean)
        meaning->text = value->boolean;
    if (row->kind != KIND_CHOICE || option_find_choice(row->words, value->text) >= 0)
        return;
    snprintf(meaning->held, sizeof meaning->held, "%s", value->text);
    for (char *at = meaning->held; *at; at++)
        *at = (char)(*at >= 'A' && *at <= 'Z' ? *at - 'A' + 'a' : *at);
    if (option_find_choice(row->words, meaning->held) >= 0)
        meaning->text = meaning->held;
    else if (value->boolean)
        meaning->text = value->boolean;
}

/* Options that are written as names with commas between them; in a file they may be a list. */
static int is_joined(option_id id) {
    return id == OPTION_LORA_TARGETS || id == OPTION_FREEZE;
}

static eitp_status set_config_value(config_reader *reader, const json_value *value, const char *where,
                                    config_meaning *meaning, eitp_error *error) {
    option_id id = meaning->id;
    char *joined = NULL;
    eitp_status status;
    if (value->in_array && option_of(id)->kind != KIND_LIST && !is_joined(id) && !meaning->is_own_option)
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s takes one value, not a list", where, value->name);
    if (reader->lines[id] && (!value->index || meaning->is_own_option))
        return command_fail(error, EITP_ERROR_FORMAT, "%s%s was given in line %zu already", where, value->name,
                            reader->lines[id]);
    reader->lines[id] = value->line;
    spell_value(value, meaning);
    if (is_joined(id) && value->index && options_has(reader->o, id))
        joined = command_format("%s,%s", options_text(reader->o, id), meaning->text);
    status = options_set(reader->o, id, joined ? joined : meaning->text, reader->source, where, error);
    free(joined);
    return status;
}

static eitp_status read_config_value(void *user, const json_value *value, eitp_error *error) {
    config_reader *reader = (config_reader *)user;
    char where[400];
    config_meaning meaning;
    eitp_status status;
    if (value->kind == JSON_NULL)
        return EITP_OK;
    if (reader->source == SOURCE_RUN) {
        option_id recorded = option_find(value->name, where, sizeof where);
        if (recorded == OPTION_CAPACITY || !option_of(recorded)->of_run)
            return EITP_OK;
    }
    snprintf(where, sizeof where, "%.300s:%zu: ", reader->path, value->line);
    status = read_meaning(value, where, &meaning, error);
    if (status || !meaning.text)
        return status;
    if (meaning.id == OPTION_CAPACITY || meaning.id == OPTION_CONFIG || meaning.id == OPTION_HELP)
        return option_fail_unknown(reader->o, value->name, where, error);
    if (!(option_of(meaning.id)->commands & reader->o->command))
        return EITP_OK; /* one file may serve several commands */
    return set_config_value(reader, value, where, &meaning, error);
}

eitp_status options_read_config(option_set *o, const char *path, option_source source, eitp_error *error) {
    config_reader *reader = (config_reader *)command_allocate(sizeof *reader);
    eitp_status status;
    reader->o = o;
    reader->path = path;
    reader->source = source;
    status = (yaml_is_name(path) ? yaml_read_file : json_read_file)(path, "run", read_config_value, reader, error);
    free(reader);
    /* The command line's status for a file whose content is wrong. */
    return status;
}

static void write_value(const option_entry *row, const option_value *value, size_t index, text_buffer *t) {
    if (row->kind == KIND_FLAG)
        text_format(t, "%s", value->integer ? "true" : "false");
    else if (row->kind == KIND_INTEGER || row->kind == KIND_SIZE)
        text_format(t, "%lld", (long long)value->integer);
    else if (row->kind == KIND_NUMBER)
        text_json_number(t, value->number);
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

void options_write(const option_set *o, text_buffer *t) {
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        if (!option_of(i)->of_run || !(option_of(i)->commands & o->command) || !o->values[i].count)
            continue;
        text_json_name(t, option_of(i)->name);
        write_values(option_of(i), &o->values[i], t);
    }
}

static const char *const source_names[] = {"not set", "default", "run.json", "checkpoint", "config", "command line"};

void options_print(const option_set *o, int json) {
    text_buffer t = {NULL, 0, 0};
    if (json)
        text_add(&t, "{", 1);
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        const option_value *value = &o->values[i];
        if (!(option_of(i)->commands & o->command) || i == OPTION_HELP || i == OPTION_PRINT_CONFIG)
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
        text_format(&t, json ? ", \"source\": \"%s\"}" : "  (%s)\n", source_names[value->source]);
    }
    if (json)
        text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static void print_option_help(const option_entry *row, const char *help, text_buffer *t) {
    char argument[100], left[160];
    if (row->kind == KIND_CHOICE)
        option_list_choices(row->words, "|", "|", argument, sizeof argument);
    else
        snprintf(argument, sizeof argument, "%s", row->words);
    snprintf(left, sizeof left, "--%s%s%s", row->name, *argument ? " " : "", argument);
    text_format(t, "  %-32s %s", left, help);
    if (row->has_fallback && row->kind != KIND_FLAG && !strstr(help, "(required)"))
        text_format(t, " (default: %s)", row->fallback);
    else if (row->has_fallback && strchr("1t", *row->fallback))
        text_format(t, " (--no-%s: do not)", row->name);
    text_format(t, "\n");
    if (*row->aliases) {
        const char *list = row->aliases, *word;
        size_t size;
        text_format(t, "  %-32s also:", "");
        while (option_next_word(&list, &word, &size))
            text_format(t, " --%.*s", (int)strcspn(word, "= "), word);
        text_format(t, "\n");
    }
}

void options_print_help(const char *name, unsigned command) {
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "usage: eitp %s [options]%s\n\n", name, command == OPTIONS_TOKENIZER_DECODE ? " [ID ...]" : "");
    for (size_t place = 0; place < option_count(); place++) {
        const option_id i = option_at(place);
        if (option_of(i)->commands & command)
            print_option_help(option_of(i), option_help(i, command), &t);
    }
    text_format(&t, "\n--name VALUE or --name=VALUE; - and _ are the same.\n");
    output_result(t.data, t.size);
    text_release(&t);
}
