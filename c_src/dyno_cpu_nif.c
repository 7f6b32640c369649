// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Samples the emulator's scheduler threads by their own processor time: which Erlang functions are
// on the stack whenever a thread has used some milliseconds of a processor.
//
// Each thread has a timer on its processor clock, whose signal (SIGPROF) the thread itself handles.
// The handler finds the process that the thread runs, and copies the return addresses of its stack
// into a ring of the thread's own. Names are looked up later, by drain, names and callees.
//
// Nothing here knows the layout of an emulator: dyno_agent_cpu_layout finds the places that the
// handler reads, and the agent tries the sampler on a function of its own before it is believed.
//
// Rules of the handler: all memory that is not this library's is read by process_vm_readv, so that a
// wrong address is an error and not a crash; nothing is allocated, no lock is taken, errno is kept.
// Rules of leaving: the signal gets a handler that does nothing, timers are deleted, each thread has
// taken any signal that was under way, and only then memory is freed and the old action put back.

#define _GNU_SOURCE

#include <dlfcn.h>
#include <erl_nif.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined(__linux__) || !defined(__x86_64__)
#error "not written for this system: build.sh does not build it here"
#endif

// One library for all releases from 27 on: it says the oldest version of the interface, of which it
// uses nothing newer.
#undef ERL_NIF_MINOR_VERSION
#define ERL_NIF_MINOR_VERSION 17
#undef ERL_NIF_MIN_ERTS_VERSION
#define ERL_NIF_MIN_ERTS_VERSION "erts-14.0"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

typedef uintptr_t word;

// Frames that are kept of a stack: from its inner and from its outer end.
#define INNER 48
#define OUTER 24
// Words of a stack that are read from its inner end, at most, and how many at once.
#define MOST_WORDS 4096
#define CHUNK 128
#define OUTER_WORDS 256
#define PAGE 4096
// How far C's stack is searched: for the process's address, and how many of its words are followed;
// for the call from Erlang code, and how far behind that call.
#define C_STACK_BYTES 16384
#define CALL_BYTES 4096
#define AFTER_CALL_BYTES 96
#define MOST_ASKED 200
// Samples that a thread's ring holds: those of 1.2 seconds or more.
#define RING 1024
#define MOST_THREADS 1024
#define MOST_RANGES 256
// Of the emulator's structures: how much is searched.
#define PROCESS_WORDS 256
#define THREAD_WORDS 1024
#define THREAD_KEYS 128
// A function's name is not further before its code than this.
#define MOST_CODE (1024 * 1024)
#define MARK 0x64796e6fu

enum kind { IN_JIT, IN_C, NO_PROCESS };

struct sample {
    word pid;
    word pc;
    // Where C returns to Erlang code; 0 if that is unknown.
    word back;
    uint32_t weight;
    uint8_t kind;
    uint8_t inner;
    uint8_t outer;
    // Whether there are frames between both ends that were not kept.
    uint8_t has_gap;
    word frames[INNER + OUTER];
};

struct thread {
    pid_t tid;
    int is_dirty;
    timer_t timer;
    int has_timer;
    // Written by the handler in this thread only, read by drain.
    atomic_uint head;
    atomic_uint tail;
    atomic_uint lost;
    struct sample ring[RING];
    // Of the handler: the alternate stack is small.
    word chunk[CHUNK];
};

struct range {
    word low;
    word high;
};

struct ranges {
    unsigned count;
    struct range of[MOST_RANGES];
};

struct session {
    pthread_key_t key;
    long current;
    long heap;
    long stop;
    long hend;
    // Where a process goes on with its next turn; -1 if that is unknown.
    long next;
    struct timespec deadline;
    // Replaced a second or more after the other: no handler is still at the one that is written.
    struct ranges tables[2];
    _Atomic(struct ranges *) code;
    unsigned count;
    struct thread *threads;
    struct sigaction before;
    atomic_int state;
    // Its handle is gone: nobody else will end it.
    atomic_int is_left_over;
};

// In Erlang's hands. The session is not in it: one that a thread may still come to is never freed.
struct handle {
    struct session *session;
};

enum state { RUNS, DISARMED, LEFT, STUCK };

static _Atomic(struct session *) active;
static atomic_flag taken = ATOMIC_FLAG_INIT;
static ErlNifResourceType *session_type;
static ERL_NIF_TERM atom_error, atom_false, atom_jit, atom_native, atom_none, atom_ok, atom_true,
    atom_unknown;

// Reading

static int peek(word at, void *to, size_t bytes) {
    struct iovec local = {to, bytes};
    struct iovec remote = {(void *)at, bytes};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

// Four words from four places by one call.
static int peek4(word at, const long offsets[4], word values[4]) {
    struct iovec local = {values, 4 * sizeof(word)};
    struct iovec remote[4];
    for (int i = 0; i < 4; i++) {
        remote[i].iov_base = (void *)(at + (word)offsets[i]);
        remote[i].iov_len = sizeof(word);
    }
    return process_vm_readv(getpid(), &local, 1, remote, 4, 0) == (ssize_t)(4 * sizeof(word));
}

static const struct range *range_of(const struct ranges *code, word at) {
    unsigned low = 0;
    unsigned high = code->count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (at < code->of[middle].low) {
            high = middle;
        } else if (at >= code->of[middle].high) {
            low = middle + 1;
        } else {
            return &code->of[middle];
        }
    }
    return NULL;
}

// A return address has the two lowest bits 0: the tag by which the collector knows it.
static int is_return(const struct ranges *code, word value) {
    return value != 0 && (value & 3) == 0 && range_of(code, value) != NULL;
}

// The handler

// `to` is 0 while a collector has moved the stack and has not told the end of the new heap. Beyond
// the outermost function may be anything: dyno_agent_cpu_frames leaves it out.
static void copy_stack(struct thread *thread, struct sample *sample, const struct ranges *code,
                       word from, word to) {
    word *chunk = thread->chunk;
    word at = from;
    word end = to != 0 ? to : from + MOST_WORDS * sizeof(word);
    unsigned count = 0;
    sample->has_gap = to == 0;
    while (at < end && count < INNER && at - from < MOST_WORDS * sizeof(word)) {
        // The next page may be no memory.
        size_t words = ((to != 0 ? to : (at | (PAGE - 1)) + 1) - at) / sizeof(word);
        words = words < CHUNK ? words : CHUNK;
        if (words == 0 || !peek(at, chunk, words * sizeof(word))) {
            sample->inner = (uint8_t)count;
            return;
        }
        size_t i = 0;
        for (; i < words && count < INNER; i++) {
            // Code that all share is also called with a return address of any tag.
            int is_first = at == from && i == 0;
            if (is_first ? range_of(code, chunk[i]) != NULL : is_return(code, chunk[i])) {
                sample->frames[count++] = chunk[i];
            }
        }
        at += i * sizeof(word);
    }
    sample->inner = (uint8_t)count;
    if (at < to && to - at > OUTER_WORDS * sizeof(word)) {
        sample->has_gap = 1;
        at = to - OUTER_WORDS * sizeof(word);
    }
    // The last of them, in a ring of their own.
    word *outer = sample->frames + INNER;
    unsigned seen = 0;
    while (at < to) {
        size_t words = (to - at) / sizeof(word);
        words = words < CHUNK ? words : CHUNK;
        if (words == 0 || !peek(at, chunk, words * sizeof(word))) {
            break;
        }
        for (size_t i = 0; i < words; i++) {
            if (is_return(code, chunk[i])) {
                outer[seen++ % OUTER] = chunk[i];
            }
        }
        at += words * sizeof(word);
    }
    // How many there were, so that drain finds the first of the ring.
    sample->outer = (uint8_t)(seen <= OUTER ? seen : OUTER + seen % OUTER);
    sample->has_gap |= seen > OUTER;
}

// A process of this node: its number has the tag 0011, and is not that of none, which is all ones.
static int is_process(word pid) { return (pid & 15) == 3 && pid >> 4 != (word)-1 >> 4; }

enum place { PID, HEAP, STOP, HEND, PLACES };

struct process {
    word address;
    word of[PLACES];
};

static int read_process(const struct session *session, word address, struct process *process) {
    const long offsets[PLACES] = {0, session->heap, session->stop, session->hend};
    process->address = address;
    return peek4(address, offsets, process->of);
}

// The process that the thread runs.
static int running(const struct session *session, struct process *process) {
    word data = (word)pthread_getspecific(session->key);
    word address = 0;
    return data != 0 && peek(data + (word)session->current, &address, sizeof address) &&
           address != 0 && read_process(session, address, process);
}

// The first process, seen from the stack's inner end, whose address is there. The words in between
// point elsewhere, so that its pid and the order of its heap and stack are asked for as well.
static int on_c_stack(const struct session *session, struct thread *thread, word sp,
                      struct process *process) {
    word *chunk = thread->chunk;
    const word *of = process->of;
    unsigned asked = 0;
    for (word at = sp; at - sp < C_STACK_BYTES; at += sizeof thread->chunk) {
        if (!peek(at, chunk, sizeof thread->chunk)) {
            return 0;
        }
        for (unsigned i = 0; i < CHUNK && asked < MOST_ASKED; i++) {
            word place = chunk[i];
            if ((place & 7) != 0 || place < 65536 || place - sp < C_STACK_BYTES) {
                continue;
            }
            asked++;
            if (read_process(session, place, process) && is_process(of[PID]) && of[HEAP] != 0 &&
                of[HEAP] < of[STOP] && of[STOP] <= of[HEND]) {
                return 1;
            }
        }
    }
    return 0;
}

// Erlang code that calls C leaves its stack: it moves the stack pointer to rbp or into the process,
// and takes it back from there behind the call. If it is in rbp, then the process has an old one.
enum comeback { UNKNOWN, FROM_REGISTER, FROM_PROCESS };

static enum comeback comeback(const struct session *session, word at) {
    unsigned char text[AFTER_CALL_BYTES];
    if (!peek(at, text, sizeof text)) {
        return UNKNOWN;
    }
    for (size_t i = 0; i + 4 <= sizeof text; i++) {
        const unsigned char *of = text + i;
        // mov rsp, rbp
        if (of[0] == 0x48 && ((of[1] == 0x89 && of[2] == 0xec) || (of[1] == 0x8b && of[2] == 0xe5))) {
            return FROM_REGISTER;
        }
        // mov rsp, [r13 + stop]
        if (of[0] == 0x49 && of[1] == 0x8b && of[2] == 0x65 && of[3] == session->stop) {
            return FROM_PROCESS;
        }
    }
    return UNKNOWN;
}

// Where C's stack has the return address into Erlang code.
static word called_at(const struct session *session, struct thread *thread,
                      const struct ranges *code, word sp, word *back) {
    word *chunk = thread->chunk;
    for (word at = sp & ~(word)7; at - sp < CALL_BYTES; at += sizeof thread->chunk) {
        if (!peek(at, chunk, sizeof thread->chunk)) {
            return 0;
        }
        for (unsigned i = 0; i < CHUNK; i++) {
            if (range_of(code, chunk[i]) != NULL && comeback(session, chunk[i]) != UNKNOWN) {
                *back = chunk[i];
                return at + i * sizeof(word);
            }
        }
    }
    return 0;
}

// Whether this may be the inner end of the process's stack: what is no term is a return address.
static int is_stack(const struct process *process, const struct ranges *code, word at) {
    word words[32];
    if ((at & 7) != 0 || at < process->of[HEAP] || at >= process->of[HEND]) {
        return 0;
    }
    size_t count = (process->of[HEND] - at) / sizeof(word);
    count = count < 32 ? count : 32;
    if (!peek(at, words, count * sizeof(word))) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        if ((words[i] & 3) == 0 && !is_return(code, words[i])) {
            return 0;
        }
    }
    return 1;
}

// rbp at the call from Erlang code. The outermost C function that uses it has put it on C's stack,
// below the call and before all else that points into the heap, but for r15: that comes before r14,
// a number of 32 bits, and r13, the process. If none uses it, the register has it.
static word kept_stack(const struct process *process, struct thread *thread,
                       const struct ranges *code, word call, word sp, word rbp) {
    word *chunk = thread->chunk;
    word low = call - sp > sizeof thread->chunk ? call - sizeof thread->chunk : sp & ~(word)7;
    size_t count = (call - low) / sizeof(word);
    if (!peek(low, chunk, count * sizeof(word))) {
        return 0;
    }
    while (count-- > 0) {
        int is_r15 = count >= 2 && chunk[count - 1] >> 32 == 0 &&
                     chunk[count - 2] == process->address;
        if (!is_r15 && is_stack(process, code, chunk[count])) {
            return chunk[count];
        }
    }
    return is_stack(process, code, rbp) ? rbp : 0;
}

// The inner end of the stack of a process whose thread runs C, or is about to or comes back from it.
static word stack_beside_c(const struct session *session, struct thread *thread,
                           const struct process *process, const struct ranges *code,
                           struct sample *sample, word sp, word rbp) {
    word kept = rbp;
    word back = sample->pc;
    if (sample->kind == IN_C) {
        word call = called_at(session, thread, code, sp, &back);
        if (call == 0) {
            // A dirty scheduler collects for a process between two turns. Names are looked up
            // before this address, as that of a return is behind its call.
            word next;
            if (thread->is_dirty && session->next >= 0 &&
                peek(process->address + (word)session->next, &next, sizeof next) &&
                range_of(code, next) != NULL) {
                sample->back = next + 1;
            }
            return process->of[STOP];
        }
        sample->back = back;
        kept = kept_stack(process, thread, code, call, sp, rbp);
    }
    return kept != 0 && comeback(session, back) == FROM_REGISTER ? kept : process->of[STOP];
}

static void fill(struct session *session, struct thread *thread, struct sample *sample,
                 const ucontext_t *context) {
    const struct ranges *code = atomic_load_explicit(&session->code, memory_order_acquire);
    word pc = (word)context->uc_mcontext.gregs[REG_RIP];
    word sp = (word)context->uc_mcontext.gregs[REG_RSP];
    word rbp = (word)context->uc_mcontext.gregs[REG_RBP];
    struct process process;
    sample->pc = pc;
    sample->back = 0;
    sample->kind = NO_PROCESS;
    sample->inner = 0;
    sample->outer = 0;
    sample->has_gap = 0;
    if (!running(session, &process)) {
        return;
    }
    // A match specification runs in a process that is none; the one that asked is on C's stack.
    if (!is_process(process.of[PID]) && !on_c_stack(session, thread, sp, &process)) {
        return;
    }
    word heap = process.of[HEAP];
    word hend = process.of[HEND];
    sample->pid = process.of[PID];
    sample->kind = range_of(code, pc) != NULL ? IN_JIT : IN_C;
    int is_on_heap = sample->kind == IN_JIT && sp >= heap && sp < hend;
    word from = is_on_heap ? sp
                           : stack_beside_c(session, thread, &process, code, sample, sp, rbp);
    if ((from & 7) == 0 && from != 0) {
        copy_stack(thread, sample, code, from, from >= heap && from < hend ? hend : 0);
    }
}

static int is_over(const struct timespec *deadline) {
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) != 0 || now.tv_sec > deadline->tv_sec ||
           (now.tv_sec == deadline->tv_sec && now.tv_nsec >= deadline->tv_nsec);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    int kept = errno;
    struct session *session = atomic_load_explicit(&active, memory_order_acquire);
    word value = (word)info->si_value.sival_ptr;
    (void)number;
    if (info->si_code == SI_TIMER && value >> 32 == MARK && session != NULL &&
        (uint32_t)value < session->count) {
        struct thread *thread = &session->threads[(uint32_t)value];
        unsigned weight = 1 + (unsigned)(info->si_overrun > 0 ? info->si_overrun : 0);
        unsigned head = atomic_load_explicit(&thread->head, memory_order_relaxed);
        if (is_over(&session->deadline)) {
            struct itimerspec off;
            memset(&off, 0, sizeof off);
            timer_settime(thread->timer, 0, &off, NULL);
        } else if (head - atomic_load_explicit(&thread->tail, memory_order_acquire) >= RING) {
            atomic_fetch_add_explicit(&thread->lost, weight, memory_order_relaxed);
        } else {
            struct sample *sample = &thread->ring[head % RING];
            sample->weight = weight;
            fill(session, thread, sample, context);
            atomic_store_explicit(&thread->head, head + 1, memory_order_release);
        }
    }
    errno = kept;
}

// Starting

static clockid_t clock_of(pid_t tid) { return (clockid_t)((~(unsigned)tid << 3) | 6); }

static int is_free(const struct sigaction *now) {
    struct itimerval profile;
    return !(now->sa_flags & SA_SIGINFO) &&
           (now->sa_handler == SIG_DFL || now->sa_handler == SIG_IGN) &&
           getitimer(ITIMER_PROF, &profile) == 0 && profile.it_interval.tv_sec == 0 &&
           profile.it_interval.tv_usec == 0 && profile.it_value.tv_sec == 0 &&
           profile.it_value.tv_usec == 0;
}

static int start_timer(struct thread *thread, unsigned index, long interval_ns) {
    struct sigevent event;
    struct itimerspec times;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGPROF;
    event.sigev_value.sival_ptr = (void *)((word)MARK << 32 | index);
    event.sigev_notify_thread_id = thread->tid;
    if (timer_create(clock_of(thread->tid), &event, &thread->timer) != 0) {
        return 0;
    }
    thread->has_timer = 1;
    times.it_interval.tv_sec = interval_ns / 1000000000;
    times.it_interval.tv_nsec = interval_ns % 1000000000;
    times.it_value = times.it_interval;
    return timer_settime(thread->timer, 0, &times, NULL) == 0;
}

// Leaving

// A handler that does nothing and is not in this library: no thread can be in it when the library
// is unloaded.
static void (*const harmless)(int) = (void (*)(int))(uintptr_t)abs;

static void act_harmlessly(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = harmless;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    sigaction(SIGPROF, &action, NULL);
}

static void disarm(struct session *session) {
    int runs = RUNS;
    struct sigaction now;
    if (!atomic_compare_exchange_strong(&session->state, &runs, DISARMED)) {
        return;
    }
    // Another one's handler, set since, stays.
    if (sigaction(SIGPROF, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_signal) {
        act_harmlessly();
    }
    for (unsigned i = 0; i < session->count; i++) {
        if (session->threads[i].has_timer) {
            timer_delete(session->threads[i].timer);
            session->threads[i].has_timer = 0;
        }
    }
}

// Whether a thread has a SIGPROF that it has not taken yet; none where it has ended.
static int is_pending(pid_t tid) {
    char path[64];
    char text[4096];
    unsigned long long pending = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)tid);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    while (fgets(text, sizeof text, file) != NULL) {
        if (sscanf(text, "SigPnd: %llx", &pending) == 1) {
            break;
        }
    }
    fclose(file);
    return (pending >> (SIGPROF - 1)) & 1;
}

// While the handler runs SIGPROF is blocked in its thread. So a thread that has taken one that was
// sent after the timers were gone is in the handler no more.
static int has_left(struct session *session, int patience_ms) {
    const struct timespec moment = {0, 1000000};
    for (unsigned i = 0; i < session->count; i++) {
        syscall(SYS_tgkill, getpid(), session->threads[i].tid, SIGPROF);
    }
    for (unsigned i = 0; i < session->count; i++) {
        while (is_pending(session->threads[i].tid)) {
            if (patience_ms-- <= 0) {
                return 0;
            }
            nanosleep(&moment, NULL);
        }
    }
    return 1;
}

// The library stays where it is for ever: a thread may still come to it.
static void pin(void) {
    Dl_info info;
    if (dladdr((void *)on_signal, &info) != 0) {
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
}

static int leave(struct session *session, int patience_ms) {
    int disarmed = DISARMED;
    struct sigaction now;
    disarm(session);
    if (!atomic_compare_exchange_strong(&session->state, &disarmed, LEFT)) {
        return disarmed == LEFT;
    }
    if (sigaction(SIGPROF, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
        now.sa_handler == harmless) {
        if (!has_left(session, patience_ms)) {
            atomic_store(&session->state, STUCK);
            pin();
            return 0;
        }
        // What is pending for another thread is dropped by this, and not the end of the emulator.
        struct sigaction ignore;
        memset(&ignore, 0, sizeof ignore);
        ignore.sa_handler = SIG_IGN;
        sigaction(SIGPROF, &ignore, NULL);
        sigaction(SIGPROF, &session->before, NULL);
    }
    atomic_store(&active, NULL);
    atomic_flag_clear(&taken);
    return 1;
}


static void end(struct session *session, int patience_ms) {
    if (leave(session, patience_ms)) {
        free(session->threads);
        free(session);
    } else {
        atomic_store(&session->is_left_over, 1);
    }
}

// A session whose handle is gone, and that a thread might still have come to then.
static void end_stuck(void) {
    int stuck = STUCK;
    struct session *session = atomic_load(&active);
    if (session != NULL && atomic_load(&session->is_left_over) &&
        atomic_compare_exchange_strong(&session->state, &stuck, DISARMED)) {
        end(session, 100);
    }
}

static void handle_gone(ErlNifEnv *env, void *object) {
    struct handle *handle = object;
    (void)env;
    if (handle->session != NULL) {
        end(handle->session, 300);
    }
}

// Its owner is dead: the signals end now, the rest is done when the handle goes.
static void owner_gone(ErlNifEnv *env, void *object, ErlNifPid *pid, ErlNifMonitor *monitor) {
    struct handle *handle = object;
    (void)env;
    (void)pid;
    (void)monitor;
    if (handle->session != NULL) {
        disarm(handle->session);
    }
}

static struct session *session_of(ErlNifEnv *env, ERL_NIF_TERM term) {
    void *object;
    if (!enif_get_resource(env, term, session_type, &object)) {
        return NULL;
    }
    return ((struct handle *)object)->session;
}

static ERL_NIF_TERM error(ErlNifEnv *env, const char *reason) {
    return enif_make_tuple2(env, atom_error, enif_make_atom(env, reason));
}

// What the layout is found from: dyno_agent_cpu_layout

static ERL_NIF_TERM bytes(ErlNifEnv *env, const void *from, size_t size) {
    ERL_NIF_TERM term;
    memcpy(enif_make_new_binary(env, size, &term), from, size);
    return term;
}

// {Process, Its first word is the caller's pid, Words, What they point to, Size of the alternate
// stack, [{Key, Words of what the thread has there}]}.
static ERL_NIF_TERM snapshot(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    word two[2] = {0, 0};
    word words[PROCESS_WORDS];
    word targets[PROCESS_WORDS];
    word thread_words[THREAD_WORDS];
    ErlNifPid self;
    stack_t alternate;
    size_t count = PROCESS_WORDS;
    ERL_NIF_TERM keys = enif_make_list(env, 0);
    (void)argc;
    (void)argv;
    enif_self(env, &self);
    peek((word)env, two, sizeof two);
    while (count > 0 && !peek(two[1], words, count * sizeof(word))) {
        count /= 2;
    }
    for (size_t i = 0; i < count; i++) {
        if ((words[i] & 7) != 0 || !peek(words[i], &targets[i], sizeof(word))) {
            targets[i] = 0;
        }
    }
    for (unsigned key = 0; key < THREAD_KEYS; key++) {
        word at = (word)pthread_getspecific(key);
        size_t of_thread = THREAD_WORDS;
        while (at != 0 && of_thread > 0 && !peek(at, thread_words, of_thread * sizeof(word))) {
            of_thread /= 2;
        }
        if (at != 0 && of_thread > 0) {
            ERL_NIF_TERM of = bytes(env, thread_words, of_thread * sizeof(word));
            keys = enif_make_list_cell(env, enif_make_tuple2(env, enif_make_uint(env, key), of),
                                       keys);
        }
    }
    int has_stack = sigaltstack(NULL, &alternate) == 0 && !(alternate.ss_flags & SS_DISABLE);
    return enif_make_tuple6(env, enif_make_uint64(env, two[1]),
                            enif_make_uint64(env, count > 0 && words[0] == self.pid),
                            bytes(env, words, count * sizeof(word)),
                            bytes(env, targets, count * sizeof(word)),
                            enif_make_uint64(env, has_stack ? alternate.ss_size : 0), keys);
}

// Computes for so many nanoseconds of its thread's processor time.
static ERL_NIF_TERM compute(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    ErlNifUInt64 ns;
    struct timespec start;
    struct timespec now;
    (void)argc;
    if (!enif_get_uint64(env, argv[0], &ns) ||
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start) != 0) {
        return enif_make_badarg(env);
    }
    do {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((ErlNifUInt64)(now.tv_sec - start.tv_sec) * 1000000000u + (ErlNifUInt64)now.tv_nsec -
                 (ErlNifUInt64)start.tv_nsec <
             ns);
    return atom_ok;
}

// A session

// [{Low, High}], in order: the memory that Erlang code is in.
static int get_ranges(ErlNifEnv *env, ERL_NIF_TERM list, struct ranges *ranges) {
    ERL_NIF_TERM head;
    const ERL_NIF_TERM *pair;
    int arity;
    ErlNifUInt64 low;
    ErlNifUInt64 high;
    ranges->count = 0;
    while (ranges->count < MOST_RANGES && enif_get_list_cell(env, list, &head, &list)) {
        if (!enif_get_tuple(env, head, &arity, &pair) || arity != 2 ||
            !enif_get_uint64(env, pair[0], &low) || !enif_get_uint64(env, pair[1], &high)) {
            return 0;
        }
        ranges->of[ranges->count].low = low;
        ranges->of[ranges->count++].high = high;
    }
    return 1;
}

static int get_layout(ErlNifEnv *env, ERL_NIF_TERM term, struct session *session) {
    const ERL_NIF_TERM *of;
    int arity;
    int key;
    if (!enif_get_tuple(env, term, &arity, &of) || arity != 6 || !enif_get_int(env, of[0], &key)) {
        return 0;
    }
    session->key = (pthread_key_t)key;
    return enif_get_long(env, of[1], &session->current) &&
           enif_get_long(env, of[2], &session->heap) && enif_get_long(env, of[3], &session->stop) &&
           enif_get_long(env, of[4], &session->hend) && enif_get_long(env, of[5], &session->next);
}

static int get_threads(ErlNifEnv *env, ERL_NIF_TERM list, struct session *session) {
    unsigned length;
    ERL_NIF_TERM head;
    if (!enif_get_list_length(env, list, &length) || length == 0 || length > MOST_THREADS) {
        return 0;
    }
    session->threads = calloc(length, sizeof(struct thread));
    if (session->threads == NULL) {
        return 0;
    }
    session->count = length;
    for (unsigned i = 0; enif_get_list_cell(env, list, &head, &list); i++) {
        int tid;
        if (!enif_get_int(env, head, &tid)) {
            return 0;
        }
        session->threads[i].tid = (pid_t)abs(tid);
        session->threads[i].is_dirty = tid < 0;
    }
    return 1;
}

static int set_deadline(ErlNifEnv *env, ERL_NIF_TERM term, struct session *session) {
    ErlNifUInt64 ms;
    if (!enif_get_uint64(env, term, &ms) || clock_gettime(CLOCK_MONOTONIC, &session->deadline) != 0) {
        return 0;
    }
    session->deadline.tv_sec += (time_t)(ms / 1000);
    return 1;
}

static struct session *make_session(ErlNifEnv *env, const ERL_NIF_TERM argv[], long *interval_ns) {
    struct session *session = calloc(1, sizeof(struct session));
    if (session == NULL) {
        return NULL;
    }
    if (get_layout(env, argv[0], session) && get_ranges(env, argv[1], &session->tables[0]) &&
        get_threads(env, argv[2], session) && enif_get_long(env, argv[3], interval_ns) &&
        *interval_ns >= 1000000 && set_deadline(env, argv[4], session)) {
        atomic_store(&session->code, &session->tables[0]);
        return session;
    }
    free(session->threads);
    free(session);
    return NULL;
}

// (Layout, Ranges, Threads, IntervalNs, DeadlineMs) -> {ok, Session, Timers} | {error, Reason}.
static ERL_NIF_TERM start(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    long interval_ns;
    unsigned timers = 0;
    struct sigaction action;
    ErlNifPid self;
    (void)argc;
    enif_self(env, &self);
    struct session *session = make_session(env, argv, &interval_ns);
    if (session == NULL) {
        return enif_make_badarg(env);
    }
    struct handle *handle = enif_alloc_resource(session_type, sizeof *handle);
    handle->session = NULL;
    ERL_NIF_TERM term = enif_make_resource(env, handle);
    enif_release_resource(handle);
    end_stuck();
    if (atomic_flag_test_and_set(&taken)) {
        free(session->threads);
        free(session);
        return error(env, "signal_in_use");
    }
    if (sigaction(SIGPROF, NULL, &session->before) != 0 || !is_free(&session->before)) {
        atomic_flag_clear(&taken);
        free(session->threads);
        free(session);
        return error(env, "signal_in_use");
    }
    handle->session = session;
    atomic_store(&active, session);
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    sigaction(SIGPROF, &action, NULL);
    if (enif_monitor_process(env, handle, &self, NULL) == 0) {
        for (unsigned i = 0; i < session->count; i++) {
            timers += (unsigned)start_timer(&session->threads[i], i, interval_ns);
        }
    }
    return enif_make_tuple3(env, atom_ok, term, enif_make_uint(env, timers));
}

// (Session) -> true | false: false where a thread did not take its last signal in time.
static ERL_NIF_TERM stop(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct session *session = session_of(env, argv[0]);
    (void)argc;
    if (session == NULL) {
        return enif_make_badarg(env);
    }
    return leave(session, 2000) ? atom_true : atom_false;
}

// (Session, Ranges): the code is elsewhere, too, by now.
static ERL_NIF_TERM code(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct session *session = session_of(env, argv[0]);
    (void)argc;
    if (session == NULL) {
        return enif_make_badarg(env);
    }
    struct ranges *other = session->code == &session->tables[0] ? &session->tables[1]
                                                                 : &session->tables[0];
    if (!get_ranges(env, argv[1], other)) {
        return enif_make_badarg(env);
    }
    atomic_store_explicit(&session->code, other, memory_order_release);
    return atom_ok;
}

static ERL_NIF_TERM addresses(ErlNifEnv *env, const word *from, unsigned first, unsigned count) {
    ERL_NIF_TERM list = enif_make_list(env, 0);
    for (unsigned i = count; i > 0; i--) {
        word at = first > 0 ? from[(first + i - 1) % OUTER] : from[i - 1];
        list = enif_make_list_cell(env, enif_make_uint64(env, at), list);
    }
    return list;
}

// {Thread, Pid | none, jit | native | Back, Pc, Weight, Inner, Outer, HasGap}; inner frames come
// first.
static ERL_NIF_TERM sample_term(ErlNifEnv *env, unsigned index, const struct sample *sample) {
    unsigned outer = sample->outer > OUTER ? OUTER : sample->outer;
    unsigned first = sample->outer > OUTER ? sample->outer - OUTER : 0;
    ERL_NIF_TERM parts[] = {
        enif_make_uint(env, index),
        sample->kind == NO_PROCESS ? atom_none : (ERL_NIF_TERM)sample->pid,
        sample->kind == IN_JIT ? atom_jit
        : sample->back != 0   ? enif_make_uint64(env, sample->back)
                              : atom_native,
        enif_make_uint64(env, sample->pc),
        enif_make_uint(env, sample->weight),
        addresses(env, sample->frames, 0, sample->inner),
        addresses(env, sample->frames + INNER, first, outer),
        sample->has_gap ? atom_true : atom_false,
    };
    return enif_make_tuple_from_array(env, parts, sizeof parts / sizeof parts[0]);
}

// (Session, Most) -> [Sample]: some of those that are there.
static ERL_NIF_TERM drain(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct session *session = session_of(env, argv[0]);
    unsigned most;
    ERL_NIF_TERM list = enif_make_list(env, 0);
    (void)argc;
    if (session == NULL || !enif_get_uint(env, argv[1], &most)) {
        return enif_make_badarg(env);
    }
    for (unsigned i = 0; i < session->count; i++) {
        struct thread *thread = &session->threads[i];
        unsigned head = atomic_load_explicit(&thread->head, memory_order_acquire);
        unsigned tail = atomic_load_explicit(&thread->tail, memory_order_relaxed);
        for (; tail != head && most > 0; tail++, most--) {
            ERL_NIF_TERM term = sample_term(env, i, &thread->ring[tail % RING]);
            list = enif_make_list_cell(env, term, list);
        }
        atomic_store_explicit(&thread->tail, tail, memory_order_release);
    }
    return list;
}

static ERL_NIF_TERM clock_ns(ErlNifEnv *env, clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) {
        return atom_unknown;
    }
    return enif_make_uint64(env, (ErlNifUInt64)now.tv_sec * 1000000000u + (ErlNifUInt64)now.tv_nsec);
}

// (Session) -> {ProcessNs, [{ThreadNs, Lost}]}: processor time of the emulator and of each thread.
static ERL_NIF_TERM waiting(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct session *session = session_of(env, argv[0]);
    unsigned sum = 0;
    (void)argc;
    if (session == NULL) {
        return enif_make_badarg(env);
    }
    for (unsigned i = 0; i < session->count; i++) {
        struct thread *thread = &session->threads[i];
        sum += atomic_load_explicit(&thread->head, memory_order_acquire) -
               atomic_load_explicit(&thread->tail, memory_order_relaxed);
    }
    return enif_make_uint(env, sum);
}

static ERL_NIF_TERM clocks(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    struct session *session = session_of(env, argv[0]);
    ERL_NIF_TERM list = enif_make_list(env, 0);
    (void)argc;
    if (session == NULL) {
        return enif_make_badarg(env);
    }
    for (unsigned i = session->count; i > 0; i--) {
        struct thread *thread = &session->threads[i - 1];
        unsigned lost = atomic_load_explicit(&thread->lost, memory_order_relaxed);
        ERL_NIF_TERM pair = enif_make_tuple2(env, clock_ns(env, clock_of(thread->tid)),
                                             enif_make_uint(env, lost));
        list = enif_make_list_cell(env, pair, list);
    }
    return enif_make_tuple2(env, clock_ns(env, CLOCK_PROCESS_CPUTIME_ID), list);
}

// Names

struct mfa {
    word module;
    word function;
    word arity;
};

// An atom that there is: its number is less than how many there are.
static int is_atom(word value, word atoms) { return (value & 0x3f) == 0x0b && value >> 6 < atoms; }

static int is_mfa(const word *words, word atoms) {
    return is_atom(words[0], atoms) && is_atom(words[1], atoms) && words[2] < 256;
}

// The last module, function and arity among the words of [low, high).
static int last_mfa(word low, word high, word atoms, struct mfa *mfa) {
    word words[512];
    while (high - low >= sizeof *mfa) {
        size_t count = (high - low) / sizeof(word);
        count = count < 512 ? count : 512;
        word base = high - count * sizeof(word);
        if (!peek(base, words, count * sizeof(word))) {
            return 0;
        }
        for (size_t i = count - 2; i > 0; i--) {
            if (is_mfa(words + i - 1, atoms)) {
                memcpy(mfa, words + i - 1, sizeof *mfa);
                return 1;
            }
        }
        // The next part overlaps by two words.
        high = count < 3 || base == low ? low : base + 2 * sizeof(word);
    }
    return 0;
}

static int function_at(const struct ranges *code, word at, word limit, word atoms, struct mfa *mfa) {
    const struct range *range = range_of(code, at);
    if (range == NULL) {
        return 0;
    }
    word high = at & ~(word)7;
    word low = high - range->low > limit ? high - limit : range->low;
    return last_mfa(low, high, atoms, mfa);
}

// Behind a module's last function are jumps to code that all share, each of six bytes: 40 e9 and a
// distance.
static int is_jump(word at) {
    unsigned char text[14];
    return peek(at - 6, text, sizeof text) && text[6] == 0x40 && text[7] == 0xe9 &&
           ((text[0] == 0x40 && text[1] == 0xe9) || (text[12] == 0x40 && text[13] == 0xe9));
}

// Whether a word of the stack is no return address but the begin of a function's code, behind its
// name: a call that is timed keeps there the function timed before it.
static int is_begin(word at, word atoms) {
    word words[3];
    return (at & 7) == 0 && peek(at - sizeof words, words, sizeof words) && is_mfa(words, atoms);
}

static ERL_NIF_TERM mfa_term(ErlNifEnv *env, int is_found, const struct mfa *mfa) {
    return is_found ? enif_make_tuple3(env, (ERL_NIF_TERM)mfa->module, (ERL_NIF_TERM)mfa->function,
                                       enif_make_uint(env, (unsigned)mfa->arity))
                    : atom_unknown;
}

// The function that was called by the instructions before a return address: its code begins where a
// relative call goes to, or an entry with its name is loaded into a register before the call.
static int callee_at(const struct ranges *code, word at, word atoms, struct mfa *mfa) {
    unsigned char text[40];
    word entry[16];
    if (!peek(at - sizeof text, text, sizeof text)) {
        return 0;
    }
    if (text[35] == 0xe8) {
        int32_t distance;
        memcpy(&distance, text + 36, sizeof distance);
        if (function_at(code, at + (word)(intptr_t)distance, 64, atoms, mfa)) {
            return 1;
        }
    }
    for (int i = 28; i >= 0; i--) {
        if ((text[i] == 0x48 || text[i] == 0x49) && text[i + 1] >= 0xb8 && text[i + 1] <= 0xbf) {
            word value;
            memcpy(&value, text + i + 2, sizeof value);
            if ((value & 7) != 0 || !peek(value, entry, sizeof entry)) {
                continue;
            }
            for (int j = 0; j < 14; j++) {
                if (is_mfa(entry + j, atoms)) {
                    memcpy(mfa, entry + j, sizeof *mfa);
                    return 1;
                }
            }
        }
    }
    return 0;
}

// (Session, [Address], Atoms) -> [{M, F, A} | unknown].
static ERL_NIF_TERM each(ErlNifEnv *env, const ERL_NIF_TERM argv[], int of_callee) {
    struct session *session = session_of(env, argv[0]);
    ERL_NIF_TERM list = argv[1];
    ERL_NIF_TERM names = enif_make_list(env, 0);
    ERL_NIF_TERM head;
    ErlNifUInt64 atoms;
    ErlNifUInt64 at;
    if (session == NULL || !enif_get_uint64(env, argv[2], &atoms)) {
        return enif_make_badarg(env);
    }
    const struct ranges *code = session->code;
    while (enif_get_list_cell(env, list, &head, &list)) {
        struct mfa mfa;
        if (!enif_get_uint64(env, head, &at)) {
            return enif_make_badarg(env);
        }
        int is_found = of_callee ? callee_at(code, at, atoms, &mfa)
                                 : !is_jump(at) && !is_begin(at + 1, atoms) &&
                                       function_at(code, at, MOST_CODE, atoms, &mfa);
        names = enif_make_list_cell(env, mfa_term(env, is_found, &mfa), names);
    }
    enif_make_reverse_list(env, names, &list);
    return list;
}

static ERL_NIF_TERM names(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    return each(env, argv, 0);
}

static ERL_NIF_TERM callees(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)argc;
    return each(env, argv, 1);
}

static ERL_NIF_TERM loaded(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return atom_true;
}

static int load(ErlNifEnv *env, void **private_data, ERL_NIF_TERM info) {
    ErlNifResourceTypeInit init;
    (void)private_data;
    (void)info;
    memset(&init, 0, sizeof init);
    init.dtor = handle_gone;
    init.down = owner_gone;
    atom_error = enif_make_atom(env, "error");
    atom_false = enif_make_atom(env, "false");
    atom_jit = enif_make_atom(env, "jit");
    atom_native = enif_make_atom(env, "native");
    atom_none = enif_make_atom(env, "none");
    atom_ok = enif_make_atom(env, "ok");
    atom_true = enif_make_atom(env, "true");
    atom_unknown = enif_make_atom(env, "unknown");
    session_type = enif_open_resource_type_x(env, "dyno_cpu", &init, ERL_NIF_RT_CREATE, NULL);
    return session_type == NULL;
}

static ErlNifFunc functions[] = {
    {"loaded", 0, loaded, 0},
    {"snapshot", 0, snapshot, 0},
    {"snapshot_dirty", 0, snapshot, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"compute_dirty", 1, compute, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"start", 5, start, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"stop", 1, stop, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"code", 2, code, 0},
    {"drain", 2, drain, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"waiting", 1, waiting, 0},
    {"clocks", 1, clocks, 0},
    {"names", 3, names, ERL_NIF_DIRTY_JOB_CPU_BOUND},
    {"callees", 3, callees, ERL_NIF_DIRTY_JOB_CPU_BOUND},
};

ERL_NIF_INIT(dyno_agent_cpu_nif, functions, load, NULL, NULL, NULL)
