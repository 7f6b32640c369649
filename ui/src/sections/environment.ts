// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// Where a recording was made and what was asked for.

import { absent, h, type Child } from '../dom';
import type { Recording } from '../recording';
import { format } from '../units';

export function environment(recording: Recording): Child {
    const units: Record<string, string> = { memory_bytes: 'B' };
    const pairs = [
        ...Object.entries(recording.environment).map(([k, v]) => [words(k), plain(v, units[k])]),
        ...recording.runs
            .slice(0, 1)
            .flatMap((r) => r.nodes)
            .map((n) => [
                'Target',
                [
                    n.name,
                    n.otp && `OTP ${n.otp}`,
                    n.schedulers_online && `${n.schedulers_online} schedulers`,
                ]
                    .filter(Boolean)
                    .join(', '),
            ]),
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
