// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// The clocks of the operating system's thread that runs the calling process: its processor time,
// and the time it waited for a processor although it could have run.
//
// What a system does not tell is `undefined`. Nothing is kept between calls: a descriptor kept per
// thread would save 3 us a call and leak at every unload of the module.

#define _GNU_SOURCE

#include <erl_nif.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

static ERL_NIF_TERM atom_undefined;
static ERL_NIF_TERM atom_true;
// The keys of the map, in the order of the values below.
static ERL_NIF_TERM keys[3];
static const char *const key_names[3] = {"thread", "cpu_ns", "wait_ns"};

static ERL_NIF_TERM cpu_time(ErlNifEnv *env) {
    struct timespec now;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) != 0) {
        return atom_undefined;
    }
    return enif_make_uint64(env, (ErlNifUInt64)now.tv_sec * 1000000000U + (ErlNifUInt64)now.tv_nsec);
}

#ifdef __linux__

// The second figure of schedstat is the time spent waiting on a run queue, in nanoseconds.
static ERL_NIF_TERM wait_time(ErlNifEnv *env, long thread) {
    char path[64];
    char text[128];
    unsigned long long run;
    unsigned long long wait;
    snprintf(path, sizeof path, "/proc/self/task/%ld/schedstat", thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return atom_undefined;
    }
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) {
        return atom_undefined;
    }
    text[length] = '\0';
    // A kernel that does not account for it says 0 for both, while the caller surely has run.
    if (sscanf(text, "%llu %llu", &run, &wait) != 2 || run == 0) {
        return atom_undefined;
    }
    return enif_make_uint64(env, wait);
}

static void os_times(ErlNifEnv *env, ERL_NIF_TERM *values) {
    long thread = syscall(SYS_gettid);
    values[0] = enif_make_int64(env, thread);
    values[2] = wait_time(env, thread);
}

#else

// Any number that tells the threads apart: the address of something each has for itself.
static void os_times(ErlNifEnv *env, ERL_NIF_TERM *values) {
    static _Thread_local char mark;
    values[0] = enif_make_uint64(env, (ErlNifUInt64)(uintptr_t)&mark);
}

#endif

static ERL_NIF_TERM thread_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    ERL_NIF_TERM values[3] = {atom_undefined, atom_undefined, atom_undefined};
    ERL_NIF_TERM map;
    (void)argc;
    (void)argv;
    os_times(env, values);
    // Last, and next to the wall clock that the caller reads: what is above is not in it.
    values[1] = cpu_time(env);
    if (!enif_make_map_from_arrays(env, keys, values, 3, &map)) {
        return enif_make_badarg(env);
    }
    return map;
}

static ERL_NIF_TERM loaded_nif(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    (void)env;
    (void)argc;
    (void)argv;
    return atom_true;
}

static int load(ErlNifEnv *env, void **private_data, ERL_NIF_TERM info) {
    (void)private_data;
    (void)info;
    atom_undefined = enif_make_atom(env, "undefined");
    atom_true = enif_make_atom(env, "true");
    for (size_t i = 0; i < 3; i++) {
        keys[i] = enif_make_atom(env, key_names[i]);
    }
    return 0;
}

// Atoms are the same for ever, and there is nothing else to take over.
static int upgrade(ErlNifEnv *env, void **private_data, void **old_private_data,
                   ERL_NIF_TERM info) {
    (void)old_private_data;
    return load(env, private_data, info);
}

static ErlNifFunc functions[] = {
    {"thread_nif", 0, thread_nif, 0},
    {"loaded_nif", 0, loaded_nif, 0},
};

ERL_NIF_INIT(dyno_clock, functions, load, NULL, upgrade, NULL)
