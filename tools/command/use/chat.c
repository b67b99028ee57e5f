/* eitp chat: a dialogue with a model trained on conversations. */
#include "model/model.h"
#include "output.h"
#include "process.h"
#include "use/trained_model.h"

#include <signal.h>
#include <unistd.h>

enum { USUAL_CONTEXT = 4096, USUAL_TOKENS = 512 };

typedef struct chatting {
    option_set options;
    trained_model trained;
    eitp_chat *chat;
    eitp_generator *generator;
    int64_t capacity;         /* tokens of a conversation */
    text_buffer *messages;    /* JSON of each message so far */
    size_t count, has_system; /* messages; 1 if the first is the system's */
    text_buffer answer;       /* being generated */
    int32_t *ids;
    size_t id_capacity;
    int ends; /* end of input, or /exit */
} chatting;

/* ---- Interrupting an answer ---- */

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static int is_interrupted(void *user) {
    (void)user;
    return interrupted != 0;
}

/* SIGINT ends an answer in progress; otherwise it ends the command. */
static void let_interrupt(int is_answering) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = is_answering ? interrupt : SIG_DFL;
    interrupted = 0;
    sigaction(SIGINT, &action, NULL);
}

/* ---- Messages ---- */

static void add_message(chatting *c, const char *role, const char *text, size_t size) {
    text_buffer *message;
    c->messages = (text_buffer *)command_resize(c->messages, (c->count + 1) * sizeof *c->messages);
    message = &c->messages[c->count++];
    memset(message, 0, sizeof *message);
    text_format(message, "{");
    text_json_member_string(message, "role", role);
    text_json_name(message, "content");
    text_json_string(message, text, size);
    text_format(message, "}");
}

/* Removes messages [first, first + count). */
static void remove_messages(chatting *c, size_t first, size_t count) {
    for (size_t i = first; i < first + count; i++)
        text_release(&c->messages[i]);
    memmove(c->messages + first, c->messages + first + count, (c->count - first - count) * sizeof *c->messages);
    c->count -= count;
}

static void begin_conversation(chatting *c) {
    const char *system = options_text(&c->options, OPTION_SYSTEM);
    remove_messages(c, 0, c->count);
    c->has_system = system != NULL;
    if (system)
        add_message(c, "system", system, strlen(system));
}

/* ---- Tokens ---- */

static eitp_status encode_messages(chatting *c, size_t *count, eitp_error *error) {
    eitp_chat_config config = eitp_chat_config_default();
    eitp_chat_report report;
    text_buffer conversation = {NULL, 0, 0};
    eitp_status status;
    config.targets = EITP_CHAT_ALL;
    config.add_generation_prompt = 1;
    config.values = options_text(&c->options, OPTION_CHAT_VALUES);
    text_format(&conversation, "{\"messages\":[");
    for (size_t i = 0; i < c->count; i++) {
        text_add(&conversation, ",", i > 0);
        text_add(&conversation, c->messages[i].data, c->messages[i].size);
    }
    text_format(&conversation, "]}");
    do {
        status = eitp_chat_encode(c->chat, conversation.data, conversation.size, &config, c->ids, NULL, c->id_capacity,
                                  &report, error);
        *count = report.count;
        if (status || report.count <= c->id_capacity)
            break;
        c->id_capacity = report.count;
        c->ids = (int32_t *)command_resize(c->ids, c->id_capacity * sizeof *c->ids);
    } while (1);
    text_release(&conversation);
    return status;
}

/* Encodes the conversation, and drops its oldest turns until there is room for an answer. */
static eitp_status fit_messages(chatting *c, int64_t wanted, size_t *count, eitp_error *error) {
    const int64_t room = wanted < c->capacity / 4 ? wanted : c->capacity / 4;
    size_t forgotten = 0;
    eitp_status status = encode_messages(c, count, error);
    while (!status && (int64_t)*count > c->capacity - room && c->count >= c->has_system + 3) {
        remove_messages(c, c->has_system, 2);
        forgotten += 2;
        status = encode_messages(c, count, error);
    }
    if (!status && (int64_t)*count >= c->capacity)
        return command_fail(
            error, EITP_ERROR_ARGUMENT,
            "the message has %zu tokens with its template, but the model sees only %lld; shorten it, or "
            "raise --context",
            *count, (long long)c->capacity);
    if (!status && forgotten)
        output_warning("the conversation is longer than %lld tokens: the model no longer sees the first %zu messages",
                       (long long)c->capacity, forgotten);
    return status;
}

/* ---- Answers ---- */

static int take_piece(void *user, const char *text, size_t size) {
    chatting *c = (chatting *)user;
    text_add(&c->answer, text, size);
    if (!options_integer(&c->options, OPTION_JSON))
        output_result(text, size);
    return !output_flush() || interrupted;
}

/* Prints an answer as a JSON object on one line. */
static void print_json(const chatting *c, const eitp_generate_report *report) {
    static const char *const ends[] = {"length", "end-of-text", "interrupted"}; /* of eitp_generate_end */
    text_buffer t = {NULL, 0, 0};
    text_format(&t, "{");
    text_json_name(&t, "text");
    text_json_string(&t, c->answer.data, c->answer.size);
    text_json_member_integer(&t, "prompt_tokens", report->prompt_tokens);
    text_json_member_integer(&t, "tokens", report->tokens);
    text_json_member_string(&t, "stop", ends[report->end]);
    text_format(&t, "}\n");
    output_result(t.data, t.size);
    text_release(&t);
}

static eitp_status write_answer(chatting *c, eitp_error *error) {
    const option_set *o = &c->options;
    eitp_generate_config config = eitp_generate_config_default();
    eitp_generate_report report;
    size_t count = 0;
    eitp_status status;
    config.sampling.temperature =
        options_is_explicit(o, OPTION_TEMPERATURE) ? options_number(o, OPTION_TEMPERATURE) : 0.7;
    config.sampling.min_p = options_is_explicit(o, OPTION_MIN_P) ? options_number(o, OPTION_MIN_P) : 0.05;
    config.sampling.top_k = (int)options_integer(o, OPTION_TOP_K);
    config.sampling.top_p = options_number(o, OPTION_TOP_P);
    config.sampling.seed = (uint64_t)options_integer(o, OPTION_SEED);
    config.max_tokens = options_is_explicit(o, OPTION_TOKENS) ? options_integer(o, OPTION_TOKENS) : USUAL_TOKENS;
    config.ends.count = eitp_chat_end_of_turn(c->chat) >= 0;
    config.ends.ids[0] = eitp_chat_end_of_turn(c->chat);
    config.keeps_cache = 1;
    config.piece = take_piece;
    config.user = c;
    status = fit_messages(c, config.max_tokens, &count, error);
    if (status)
        return status;
    if (config.max_tokens > c->capacity - (int64_t)count)
        config.max_tokens = c->capacity - (int64_t)count;
    status = eitp_generate(c->generator, c->trained.tokenizer, c->ids, count, &config, &report, error);
    if (status == EITP_ERROR_INTERRUPTED && interrupted)
        status = EITP_OK;
    if (!status && options_integer(o, OPTION_JSON))
        print_json(c, &report);
    else
        output_result("\n", 1);
    if (!status && report.end == EITP_GENERATED_MAX_TOKENS)
        output_warning("the answer was cut after %lld token%s; see --tokens and --context", (long long)report.tokens,
                       report.tokens == 1 ? "" : "s");
    return status;
}

/* Answers a message of the user and keeps both. */
static eitp_status answer(chatting *c, const char *text, size_t size, eitp_error *error) {
    eitp_status status;
    add_message(c, "user", text, size);
    text_release(&c->answer);
    text_add(&c->answer, "", 0);
    let_interrupt(1);
    status = write_answer(c, error);
    let_interrupt(0);
    if (status)
        remove_messages(c, c->count - 1, 1);
    else
        add_message(c, "assistant", c->answer.data, c->answer.size);
    return output_flush() ? status : output_check(error);
}

/* ---- Reading ---- */

/* Reads a message: one line, or several if all but the last end with a backslash. Returns 0 at the end of the input. */
static int read_message(text_buffer *message) {
    char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    int continues = 1, has_read = 0;
    text_release(message);
    text_add(message, "", 0);
    while (continues && (length = getline(&line, &capacity, stdin)) > 0) {
        size_t size = (size_t)length;
        has_read = 1;
        size -= line[size - 1] == '\n';
        continues = size && line[size - 1] == '\\';
        text_add(message, line, size - (size_t)continues);
        text_add(message, "\n", (size_t)continues);
    }
    free(line);
    return has_read;
}

/* Executes a message that starts with a slash. Returns 0 for other messages. */
static int follow_command(chatting *c, const char *text) {
    if (!strcmp(text, "/exit") || !strcmp(text, "/quit") || !strcmp(text, "/bye"))
        c->ends = 1;
    else if (!strcmp(text, "/new") || !strcmp(text, "/clear"))
        begin_conversation(c);
    else if (!strcmp(text, "/undo") && c->count >= c->has_system + 2)
        remove_messages(c, c->count - 2, 2);
    else if (!strcmp(text, "/help"))
        output_info("/new starts a new conversation, /undo removes the last turn, /exit quits; a backslash at the end "
                    "of a line continues the message");
    else
        return 0;
    return 1;
}

static eitp_status talk(chatting *c, eitp_error *error) {
    const int is_terminal = isatty(STDIN_FILENO) && output_is_terminal();
    const char *prompt = options_text(&c->options, OPTION_PROMPT);
    text_buffer message = {NULL, 0, 0};
    eitp_status status = EITP_OK;
    if (prompt)
        return answer(c, prompt, strlen(prompt), error);
    if (is_terminal)
        output_info("/help lists commands; Ctrl-C stops an answer, Ctrl-D quits");
    while (!status && !c->ends) {
        if (is_terminal) {
            fputs("> ", stderr);
            fflush(stderr);
        }
        if (!read_message(&message))
            break;
        if (message.size && !follow_command(c, message.data))
            status = answer(c, message.data, message.size, error);
        /* On a terminal a refused message does not end the conversation. */
        if (status == EITP_ERROR_ARGUMENT && is_terminal) {
            output_warning("%s", error->message);
            status = EITP_OK;
        }
    }
    text_release(&message);
    return status;
}

/* ---- Opening ---- */

static eitp_status open_chat(chatting *c, eitp_error *error) {
    const int64_t asked = options_integer(&c->options, OPTION_CONTEXT);
    int64_t positions;
    eitp_status status;
    if (!options_has(&c->options, OPTION_MODEL) && !options_has(&c->options, OPTION_ADAPTER))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--model is required: a model directory or an output directory");
    status = trained_model_read(&c->options, &c->trained, error);
    if (!status)
        status = trained_model_check_language(&c->trained, error);
    if (!status && !c->trained.tokenizer)
        return command_fail(error, EITP_ERROR_ARGUMENT, "'%s' has no tokenizer; name one with --tokenizer",
                            c->trained.directory);
    if (!status)
        status = model_check_tokenizer(c->trained.tokenizer, NULL, eitp_model_vocabulary(c->trained.model), error);
    if (!status && !eitp_tokenizer_chat_template(c->trained.tokenizer, NULL))
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "the tokenizer of '%s' has no chat template; pass the one that the model was trained with: "
                            "--chat-template FILE, or chatml",
                            trained_model_checkpoint(&c->trained));
    if (!status)
        status = eitp_chat_create(c->trained.tokenizer, &c->chat, error);
    if (status)
        return status;
    positions = eitp_model_positions(c->trained.model);
    c->capacity = asked ? asked : positions < USUAL_CONTEXT ? positions : USUAL_CONTEXT;
    if (c->capacity > positions)
        return command_fail(error, EITP_ERROR_ARGUMENT,
                            "--context must be at most the model's %lld positions (got %lld)", (long long)positions,
                            (long long)c->capacity);
    eitp_context_set_poll(c->trained.context, is_interrupted, NULL);
    begin_conversation(c);
    return eitp_generator_create(c->trained.model, c->capacity, &c->generator, error);
}

static void chatting_release(chatting *c) {
    eitp_generator_destroy(c->generator);
    eitp_chat_destroy(c->chat);
    trained_model_close(&c->trained);
    remove_messages(c, 0, c->count);
    free(c->messages);
    free(c->ids);
    text_release(&c->answer);
    options_release(&c->options);
}

int command_chat(int count, char **arguments) {
    chatting c;
    eitp_error error;
    int ended = 0, code = COMMAND_FINISHED;
    eitp_status status;
    memset(&c, 0, sizeof c);
    status = options_read(&c.options, "chat", OPTIONS_CHAT, count, arguments, &ended, &error);
    if (!status && !ended && options_integer(&c.options, OPTION_PRINT_CONFIG)) {
        options_print(&c.options, (int)options_integer(&c.options, OPTION_JSON));
        ended = 1;
    }
    if (!status && !ended)
        status = open_chat(&c, &error);
    if (!status && !ended) {
        output_start();
        status = talk(&c, &error);
    }
    if (status)
        code = output_fail(&error);
    chatting_release(&c);
    return code;
}
