// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Where a recording was made and what was asked for.

import { absent, h, type Child } from '../dom';
import type { Recording, Run, TargetNode } from '../recording';
import { format } from '../units';

export function environment(recording: Recording): Child {
    const units: Record<string, string> = { memory_bytes: 'B' };
    const pairs = [
        ...Object.entries(recording.environment).map(([k, v]) => [words(k), plain(v, units[k])]),
        ...targets(recording.runs).map((n) => ['Target', target(n)]),
        ...Object.entries(recording.parameters).map(([k, v]) => [
            words(k),
            plain(v, /_(ms|ns)$/.exec(k)?.[1]),
        ]),
    ].filter(([, v]) => v !== '');
    if (pairs.length === 0) return absent('The recording does not say where it was made.');
    const cpu = recording.environment.cpu_model;
    const title = [
        'Environment and parameters',
        cpu,
        recording.environment.cores && `${recording.environment.cores} cores`,
    ]
        .filter(Boolean)
        .join(' · ');
    return h(
        'details',
        { id: 'environment' },
        h('summary', {}, title),
        h('dl', {}, ...pairs.flatMap(([k, v]) => [h('dt', {}, k), h('dd', {}, v)])),
    );
}

/** Those of the first run; of the others those whose clocks say something. */
function targets(runs: Run[]): TargetNode[] {
    const said = runs.flatMap(({ nodes }, index) =>
        nodes.filter((n) => index === 0 || clock(n).length > 0),
    );
    // A node that was there in several runs as it was in the last one.
    return [...new Map(said.map((n) => [n.name, n])).values()];
}

function target(node: TargetNode): string {
    return [
        node.name,
        node.otp && `OTP ${node.otp}`,
        node.schedulers_online &&
            `${node.schedulers_online} scheduler${node.schedulers_online === 1 ? '' : 's'}`,
        ...clock(node),
    ]
        .filter(Boolean)
        .join(', ');
}

/** How far its clock is ahead or behind, where that is more than it may be off by. */
function clock(node: TargetNode): string[] {
    const { clock_offset_ns: ahead, clock_error_ns: error } = node;
    if (!known(ahead, error)) return [];
    return [
        `clock ${format(Math.abs(ahead!), 'ns')} ${ahead! > 0 ? 'ahead' : 'behind'} ` +
            `(± ${format(error!, 'ns')})`,
    ];
}

function known(value: number | null | undefined, error: number | null | undefined): boolean {
    return typeof value === 'number' && typeof error === 'number' && Math.abs(value) > error;
}

export function words(name: string): string {
    const known: Record<string, string> = {
        otp: 'OTP',
        erts: 'ERTS',
        jit: 'JIT',
        os: 'OS',
        cpu_model: 'CPU',
        git: 'Git',
    };
    const plainName = name.replace(/_(bytes|ms|ns)$/, '').replace(/_/g, ' ');
    return known[name] ?? plainName.charAt(0).toUpperCase() + plainName.slice(1);
}

export function plain(value: unknown, unit?: string): string {
    if (value === null || value === undefined) return '';
    if (typeof value === 'number') return unit ? format(value, unit) : String(value);
    if (typeof value === 'boolean') return value ? 'yes' : 'no';
    if (typeof value === 'string') return value;
    if (Array.isArray(value)) return value.map((v) => plain(v)).join(', ');
    return Object.entries(value as object)
        .map(([k, v]) => `${k}: ${plain(v)}`)
        .join(', ');
}
