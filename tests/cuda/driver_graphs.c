/*
 * Capture of streams and graphs of the emulated device. A node is an operation with the nodes that must come before it.
 * A launch executes one node at a time, chosen at random from those that are ready, interleaved with operations of
 * other streams.
 */
#include "tests/cuda/driver.h"

typedef struct graph_node {
    operation *content;
    size_t *needs, need_count; /* earlier nodes */
    size_t *followers, follower_count;
} graph_node;

/* Complete after the capture. Shared by a graph and its executable graphs. */
struct graph_nodes {
    int references;
    size_t count, capacity;
    graph_node *nodes;
};

struct CUgraph_st {
    object base;
    graph_nodes *list;
};

struct CUgraphExec_st {
    object base;
    graph_nodes *list;
    unsigned long launched, ended;
};

/* Never freed, because events refer to it. */
struct capture {
    graph_nodes *list;
    CUstream origin;
    pthread_t owner;
    CUstreamCaptureMode mode;
    int is_invalid, is_over;
    capture *next;
};

/* Events may refer to captures that are over. */
static capture *captures, *captures_over;

/* ---- Nodes ---- */

static size_t *copy_indices(const size_t *indices, size_t count) {
    size_t *copied = (size_t *)need_memory(malloc((count + 1) * sizeof *copied));
    if (count)
        memcpy(copied, indices, count * sizeof *copied);
    return copied;
}

static void drop_nodes(graph_nodes *list) {
    if (--list->references)
        return;
    for (size_t i = 0; i < list->count; i++) {
        drop_operation(list->nodes[i].content);
        free(list->nodes[i].needs);
        free(list->nodes[i].followers);
    }
    free(list->nodes);
    free(list);
}

/* Adds a node and returns its index. */
static size_t add_node(graph_nodes *list, operation *content, const size_t *needs, size_t need_count) {
    graph_node *added;
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 16;
        list->nodes = (graph_node *)need_memory(realloc(list->nodes, list->capacity * sizeof *list->nodes));
    }
    added = &list->nodes[list->count];
    memset(added, 0, sizeof *added);
    added->content = content;
    added->needs = copy_indices(needs, need_count);
    added->need_count = need_count;
    return list->count++;
}

static void find_followers(graph_nodes *list) {
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k < list->nodes[i].need_count; k++)
            list->nodes[list->nodes[i].needs[k]].follower_count++;
    }
    for (size_t i = 0; i < list->count; i++) {
        graph_node *node = &list->nodes[i];
        node->followers = (size_t *)need_memory(malloc((node->follower_count + 1) * sizeof *node->followers));
        node->follower_count = 0;
    }
    for (size_t i = 0; i < list->count; i++) {
        for (size_t k = 0; k < list->nodes[i].need_count; k++) {
            graph_node *needed = &list->nodes[list->nodes[i].needs[k]];
            needed->followers[needed->follower_count++] = i;
        }
    }
}

/* ---- Capture ---- */

CUresult capture_forbids(void) {
    CUresult error = CUDA_SUCCESS;
    for (capture *c = captures; c; c = c->next) {
        const int is_own = pthread_equal(c->owner, pthread_self());
        if (is_own ? c->mode == CU_STREAM_CAPTURE_MODE_RELAXED : c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
            continue;
        c->is_invalid = 1;
        error = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    return error;
}

CUresult forbid_in_capture(CUstream stream) {
    if (!stream->capture)
        return CUDA_SUCCESS;
    stream->capture->is_invalid = 1;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/* Loading may need to synchronize with the context (CUDA Programming Guide, "Lazy Loading"). */
CUresult forbid_loading(CUstream stream, int is_loaded) {
    return is_loaded ? CUDA_SUCCESS : forbid_in_capture(stream);
}

CUresult captured_submit(CUstream stream, operation *submitted) {
    capture *c = stream->capture;
    size_t index;
    if (submitted->kind == GRAPH_LAUNCH)
        c->is_invalid = 1;
    if (c->is_invalid) {
        const int is_launch = submitted->kind == GRAPH_LAUNCH;
        drop_operation(submitted);
        return is_launch ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    index = add_node(c->list, submitted, stream->tips, stream->tip_count);
    free(stream->tips);
    stream->tips = copy_indices(&index, 1);
    stream->tip_count = 1;
    return CUDA_SUCCESS;
}

CUresult captured_record(CUstream stream, event_record *record) {
    if (stream->capture->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    record->capture = stream->capture;
    record->tips = copy_indices(stream->tips, stream->tip_count);
    record->tip_count = stream->tip_count;
    return CUDA_SUCCESS;
}

/* Later work of the stream comes after these nodes too. */
static void add_tips(CUstream stream, const event_record *record) {
    const size_t most = stream->tip_count + record->tip_count;
    stream->tips = (size_t *)need_memory(realloc(stream->tips, (most + 1) * sizeof *stream->tips));
    for (size_t i = 0; i < record->tip_count; i++) {
        size_t k = 0;
        while (k < stream->tip_count && stream->tips[k] != record->tips[i])
            k++;
        if (k == stream->tip_count)
            stream->tips[stream->tip_count++] = record->tips[i];
    }
}

CUresult captured_wait(CUstream stream, const event_record *record) {
    capture *own = stream->capture, *other = record->capture;
    if (own && own->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!other) {
        own->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (other->is_over)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (own && own != other) {
        own->is_invalid = other->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    if (other->is_invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture = other;
    add_tips(stream, record);
    return CUDA_SUCCESS;
}

static void leave_capture(CUstream stream) {
    free(stream->tips);
    stream->tips = NULL;
    stream->tip_count = 0;
    stream->capture = NULL;
}

/* Ends a capture and returns its list of nodes, which the caller owns. */
static graph_nodes *finish_capture(capture *c) {
    graph_nodes *list = c->list;
    capture **link = &captures;
    for (CUstream s = driver.streams; s; s = s->next) {
        if (s->capture == c)
            leave_capture(s);
    }
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    c->next = captures_over;
    captures_over = c;
    c->is_over = 1;
    c->list = NULL;
    return list;
}

void captured_destroy(CUstream stream) {
    capture *c = stream->capture;
    if (!c)
        return;
    c->is_invalid = 1;
    if (c->origin == stream)
        drop_nodes(finish_capture(c));
    else
        leave_capture(stream);
}

void end_captures(CUcontext context) {
    for (capture *c = captures, *next; c; c = next) {
        next = c->next;
        if (c->origin->base.context == context)
            drop_nodes(finish_capture(c));
    }
}

static CUresult begin_capture(CUstream stream, CUstreamCaptureMode mode) {
    const CUresult error = check_stream(stream);
    capture *c;
    if (error)
        return error;
    if (mode < 0 || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if (stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    c = (capture *)need_memory(calloc(1, sizeof *c));
    c->list = (graph_nodes *)need_memory(calloc(1, sizeof *c->list));
    c->list->references = 1;
    c->origin = stream;
    c->owner = pthread_self();
    c->mode = mode;
    c->next = captures;
    captures = c;
    stream->capture = c;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    CALL(CONTEXT, begin_capture(stream, mode));
}

/* True if the end of the stream comes after all nodes. */
static int is_joined(CUstream stream) {
    const graph_nodes *list = stream->capture->list;
    unsigned char *is_before = (unsigned char *)need_memory(calloc(list->count + 1, 1));
    int is_all = 1;
    for (size_t i = 0; i < stream->tip_count; i++)
        is_before[stream->tips[i]] = 1;
    for (size_t i = list->count; i-- > 0;) {
        is_all &= is_before[i];
        for (size_t k = 0; is_before[i] && k < list->nodes[i].need_count; k++)
            is_before[list->nodes[i].needs[k]] = 1;
    }
    free(is_before);
    return is_all;
}

static CUresult end_capture(CUstream stream, CUgraph *graph) {
    CUresult error = check_stream(stream);
    graph_nodes *list;
    if (error)
        return error;
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = NULL;
    if (!stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->origin != stream) {
        stream->capture->is_invalid = 1;
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (stream->capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(stream->capture->owner, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    if (stream->capture->is_invalid)
        error = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(stream))
        error = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    list = finish_capture(stream->capture);
    if (error) {
        drop_nodes(list);
        return error;
    }
    find_followers(list);
    *graph = (CUgraph)need_memory(calloc(1, sizeof **graph));
    add_object(&(*graph)->base, GRAPH);
    (*graph)->list = list;
    return CUDA_SUCCESS;
}

static CUresult destroy_graph(CUgraph graph) {
    const CUresult error = check_object(graph, GRAPH);
    if (error)
        return error;
    drop_nodes(graph->list);
    destroy_object(&graph->base);
    return CUDA_SUCCESS;
}

/* Always ends the capture. After an error *graph is NULL. */
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    int acts;
    const CUresult entered = enter(__func__, CONTEXT | ACTS_ALWAYS, &acts);
    const CUresult result = acts ? end_capture(stream, graph) : entered;
    if (entered && graph) {
        if (acts && !result)
            destroy_graph(*graph);
        *graph = NULL;
    }
    return leave(entered ? entered : result);
}

static CUresult get_status(CUstream stream, CUstreamCaptureStatus *status) {
    const CUresult error = check_stream(stream);
    if (error)
        return error;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    *status = !stream->capture              ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->capture->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                            : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    CALL(CONTEXT, get_status(stream, status));
}

/* ---- Graphs ---- */

CUresult cuGraphDestroy(CUgraph graph) {
    CALL(CONTEXT | ACTS_ALWAYS, destroy_graph(graph));
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    const CUresult error = check_object(graph, GRAPH);
    if (error)
        return error;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < graph->list->count ? (CUgraphNode)(void *)&graph->list->nodes[i] : NULL;
    if (!nodes || *count > graph->list->count)
        *count = graph->list->count;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    CALL(CONTEXT, get_nodes(graph, nodes, count));
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    const CUresult error = check_object(graph, GRAPH);
    if (error)
        return error;
    if (!exec || flags > 15)
        return CUDA_ERROR_INVALID_VALUE;
    *exec = (CUgraphExec)need_memory(calloc(1, sizeof **exec));
    add_object(&(*exec)->base, EXEC);
    (*exec)->list = graph->list;
    graph->list->references++;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags) {
    CALL(CONTEXT, instantiate(exec, graph, flags));
}

static CUresult upload(CUgraphExec exec, CUstream stream) {
    const CUresult error = check_object(exec, EXEC);
    return error ? error : check_stream(stream);
}

CUresult cuGraphUpload(CUgraphExec exec, CUstream stream) {
    CALL(CONTEXT, upload(exec, stream));
}

static CUresult launch(CUgraphExec exec, CUstream stream) {
    CUresult error = check_object(exec, EXEC);
    operation *launched;
    if (!error)
        error = check_stream(stream);
    if (error)
        return error;
    launched = new_operation(GRAPH_LAUNCH);
    launched->exec = exec;
    launched->ticket = exec->launched;
    if (!stream->capture) {
        exec->launched++;
        driver.graph_launches++;
        count_graph();
    }
    return submit(stream, launched);
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    CALL(CONTEXT, launch(exec, stream));
}

/* A real device would destroy it when its launch has ended. A program that relies on this does not know when that is.
   */
static CUresult destroy_exec(CUgraphExec exec) {
    const CUresult error = check_object(exec, EXEC);
    if (error)
        return error;
    if (exec->ended < exec->launched)
        refuse("an executable graph is destroyed that is in flight");
    drop_nodes(exec->list);
    destroy_object(&exec->base);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
    CALL(CONTEXT | ACTS_ALWAYS, destroy_exec(exec));
}

/* ---- Execution ---- */

int graph_is_ready(const operation *launched) {
    return launched->ticket <= launched->exec->ended;
}

void end_graph_launch(operation *launched) {
    if (launched->exec->ended <= launched->ticket)
        launched->exec->ended = launched->ticket + 1;
}

static void begin_launch(operation *executed, const graph_nodes *list) {
    executed->waiting = (size_t *)need_memory(malloc((list->count + 1) * sizeof *executed->waiting));
    executed->ready = (size_t *)need_memory(malloc((list->count + 1) * sizeof *executed->ready));
    for (size_t i = 0; i < list->count; i++) {
        executed->waiting[i] = list->nodes[i].need_count;
        if (list->nodes[i].content->kind == RECORD)
            list->nodes[i].content->record->is_done = 0;
        if (!executed->waiting[i])
            executed->ready[executed->ready_count++] = i;
    }
    executed->left = list->count;
    executed->has_begun = 1;
}

int execute_graph_part(operation *executed) {
    const graph_nodes *list = executed->exec->list;
    const graph_node *node;
    size_t drawn;
    if (!executed->has_begun)
        begin_launch(executed, list);
    if (!executed->left)
        return 1;
    drawn = draw(executed->ready_count);
    node = &list->nodes[executed->ready[drawn]];
    executed->ready[drawn] = executed->ready[--executed->ready_count];
    execute(node->content);
    for (size_t i = 0; i < node->follower_count; i++) {
        if (!--executed->waiting[node->followers[i]])
            executed->ready[executed->ready_count++] = node->followers[i];
    }
    return --executed->left == 0;
}

const operation *find_in_graph(const operation *launched, int (*uses)(const operation *queued, const void *what),
                               const void *what) {
    const graph_nodes *list = launched->exec->list;
    for (size_t i = 0; i < list->count; i++) {
        if (uses(list->nodes[i].content, what))
            return list->nodes[i].content;
    }
    return NULL;
}
