#include "report/page.h"

#include "files.h"
#include "options/options.h"
#include "report/setting_differences.h"

/* ---- Configuration ---- */

/* Returns the defaults of eitp train's options as JSON, or NULL if they cannot be read. */
static eitp_json_document *read_defaults(void) {
    const eitp_host host = command_host();
    option_set o;
    eitp_error error;
    text_buffer text = {0};
    eitp_json_document *defaults = NULL;
    int ended;
    if (!options_read(&o, "train", OPTIONS_TRAIN, 0, NULL, &ended, &error)) {
        text_format(&text, "{");
        options_write(&o, &text);
        text_format(&text, "}");
        if (eitp_json_parse(&host, text.data, text.size, &defaults, &error))
            defaults = NULL;
    }
    text_release(&text);
    options_release(&o);
    return defaults;
}

static void add_setting(page *p, const eitp_json *setting) {
    text_format(&p->text, "<tr><th scope=\"row\">");
    markup_short(&p->text, setting->name, setting->name_size, 60);
    text_format(&p->text, "</th><td>");
    page_add_json(p, setting, 2000);
    text_format(&p->text, "</td></tr>\n");
}

/* Adds the settings that have their default values, or those that do not. */
static void add_settings(page *p, const eitp_json *configuration, const eitp_json *defaults, int is_default,
                         const char *caption) {
    static const char *const headings[] = {"Setting", "Value"};
    page_open_table(p, caption, headings, COMMAND_COUNT(headings));
    for (const eitp_json *setting = recorded_members(configuration); setting; setting = setting->next) {
        if (setting_differences_are_equal(setting, eitp_json_member(defaults, setting->name)) == is_default)
            add_setting(p, setting);
    }
    page_close_table(p);
}

void page_add_settings(page *p) {
    eitp_json_document *document = read_defaults();
    const eitp_json *defaults = eitp_json_root(document);
    for (size_t i = 0; i < p->run_count; i++) {
        const eitp_json *configuration = p->runs[i].run->configuration;
        if (!recorded_members(configuration))
            continue;
        page_add_name(p, &p->runs[i]);
        add_settings(p, configuration, defaults, 0, "Settings that differ from the defaults");
        text_format(&p->text, "<details><summary>Settings with default values</summary>\n");
        add_settings(p, configuration, defaults, 1, "Settings with default values");
        text_format(&p->text, "</details>\n");
    }
    eitp_json_release(document);
}

/* ---- Machine, model, data ---- */

static void add_members(page *p, const eitp_json *object, const char *caption) {
    if (!recorded_members(object))
        return;
    page_open_table(p, caption, NULL, 0);
    for (const eitp_json *member = recorded_members(object); member; member = member->next) {
        text_format(&p->text, "<tr><th scope=\"row\">");
        page_add_words(p, member->name);
        text_format(&p->text, "</th><td>");
        page_add_json(p, member, 2000);
        text_format(&p->text, "</td></tr>\n");
    }
    page_close_table(p);
}

static void add_program(page *p, const eitp_json *run) {
    static const char *const names[] = {"version", "build",     "device",      "numerics",
                                        "started", "directory", "resumed_from"};
    page_open_table(p, "Program", NULL, 0);
    for (size_t i = 0; i < COMMAND_COUNT(names); i++) {
        const eitp_json *value = eitp_json_member(run, names[i]);
        if (!value)
            continue;
        text_format(&p->text, "<tr><th scope=\"row\">");
        page_add_words(p, names[i]);
        text_format(&p->text, "</th><td>");
        page_add_json(p, value, 2000);
        text_format(&p->text, "</td></tr>\n");
    }
    page_close_table(p);
}

void page_add_machine(page *p) {
    for (size_t i = 0; i < p->run_count; i++) {
        const eitp_json *run = p->runs[i].run->run;
        if (!run)
            continue;
        page_add_name(p, &p->runs[i]);
        text_format(&p->text, "<div class=\"grid\"><div>\n");
        add_members(p, eitp_json_member(run, "machine"), "Machine");
        add_program(p, run);
        text_format(&p->text, "</div><div>\n");
        add_members(p, eitp_json_member(run, "model"), "Model");
        add_members(p, eitp_json_member(run, "data"), "Data");
        text_format(&p->text, "</div></div>\n");
    }
}
