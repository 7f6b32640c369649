// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The dyno authors
//
// A running node at a glance: its utilisation, memory and limits, the busiest processes, servers and
// functions, and what waits. Each leads to its section.

import { figure } from '../chart';
import { h, type Child } from '../dom';
import {
    num,
    objects,
    ofNode,
    tableOf,
    type Event,
    type Row,
    type Run,
    type Series,
} from '../recording';
import { clockOf, familyName, seriesCharts } from '../series';
import { breakable } from '../tablecells';
import { format } from '../units';
import type { Section, View } from '../view';

const mostRows = 6;
/** Charts that stand here and not under the virtual machine. */
export const atAGlance = ['vm.scheduler_utilisation', 'vm.run_queue', 'vm.memory'];

type Look = Record<string, any>;

export const glance: Section = {
    id: 'glance',
    title: 'At a glance',
    short: 'Glance',
    scope: 'run',
    render: (view: View): Child[] => {
        const { run, node } = view;
        if (!run) return [];
        const series = run.series.filter((s) => ofNode(s, node));
        const looks = looksOf(run, node);
        const cards = [
            memory(series),
            limits(looks, series),
            busiest(run, node, looks),
            servers(run, node),
            functions(run, node),
            waits(looks),
        ].filter((card) => card !== null);
        const clock = clockOf(run);
        const charts = seriesCharts(series.filter((s) => atAGlance.includes(familyName(s))));
        return [
            tiles(series),
            charts.length > 0
                ? h('div', { class: 'grid' }, ...charts.map(({ chart }) => figure({ ...chart, clock })))
                : null,
            cards.length > 0 ? h('div', { class: 'cards' }, ...cards) : null,
        ];
    },
};

/** What doctor's instrument saw, the first look first. */
function looksOf(run: Run, node: string | null): Look[] {
    return run.events.items
        .filter((e) => e.kind === 'look' && ofNode(e, node))
        .map((e) => (e as Event & { data?: Look }).data ?? {});
}

/** The measured part of a series. */
function values(series: Series[], name: string): { times: number[]; values: number[] } {
    const found = series.find((s) => s.name === name);
    const known = (found?.values ?? [])
        .map((v, i) => [found!.times_ms[i]!, v] as const)
        .filter((p): p is readonly [number, number] => p[1] !== null && p[0] >= 0);
    return { times: known.map((p) => p[0]), values: known.map((p) => p[1]) };
}

const mean = (all: number[]) => all.reduce((a, b) => a + b, 0) / all.length;
const most = (all: number[]) => all.reduce((a, b) => Math.max(a, b), -Infinity);

/** From the first value to the last, for each second; null of one value. */
function change(of: { times: number[]; values: number[] }): number | null {
    const seconds = ((of.times.at(-1) ?? 0) - (of.times[0] ?? 0)) / 1000;
    return seconds > 0 ? (of.values.at(-1)! - of.values[0]!) / seconds : null;
}

function signed(value: number | null, unit: string): string {
    if (value === null) return '';
    if (value === 0) return 'no change';
    return `${value > 0 ? '+' : ''}${format(value, unit)}`;
}

function tiles(series: Series[]): Child {
    const tile = (title: string, name: string, say: (all: number[]) => string, note: (of: ReturnType<typeof values>) => string) => {
        const of = values(series, name);
        if (of.values.length === 0) return null;
        return h(
            'div',
            { class: 'tile' },
            h('span', { class: 'tile-title' }, title),
            h('strong', {}, say(of.values)),
            h('span', { class: 'tile-note' }, note(of)),
        );
    };
    const last = (unit: string) => (all: number[]) => format(all.at(-1)!, unit);
    const atMost = (unit: string) => (of: { values: number[] }) => `at most ${format(most(of.values), unit)}`;
    const all = [
        tile('Schedulers', 'vm.scheduler_utilisation.normal', (v) => format(mean(v), 'ratio'), atMost('ratio')),
        tile('Run queue', 'vm.run_queue.normal', (v) => format(mean(v), 'count'), atMost('count')),
        tile('Memory', 'vm.memory.total', last('B'), (of) => signed(change(of), 'B/s')),
        tile('Processes', 'vm.processes', last('count'), (of) => signed(change(of), '1/s')),
        tile('Work', 'vm.reductions', (v) => format(mean(v), '1/s'), () => 'reductions'),
        tile('Machine idle', 'os.cpu.idle', (v) => format(mean(v), 'ratio'), (of) => `at least ${format(of.values.reduce((a, b) => Math.min(a, b)), 'ratio')}`),
    ].filter((t) => t !== null);
    return all.length > 0 ? h('div', { class: 'tiles' }, ...all) : null;
}

interface Bar {
    label: string;
    value: string;
    /** Of the card's whole. */
    share: number | null;
    note?: string;
    bad?: boolean;
}

function card(title: string, section: string | null, bars: Bar[], note = ''): HTMLElement | null {
    if (bars.length === 0) return null;
    const rows = bars.slice(0, mostRows).map(({ label, value, share, note: more, bad }) => {
        const fill = h('i', { class: bad ? 'fill bad' : 'fill' });
        fill.style.width = `${100 * Math.max(0, Math.min(1, share ?? 0))}%`;
        return h(
            'tr',
            {},
            h('th', { scope: 'row' }, ...breakable(label), more ? h('span', { class: 'card-note' }, more) : null),
            h('td', { class: bad ? 'number bad' : 'number' }, value),
            h('td', { class: 'bar-cell', 'aria-hidden': 'true' }, share === null ? null : h('span', { class: 'rail' }, fill)),
        );
    });
    return h(
        'div',
        { class: 'card' },
        h('h3', {}, section ? h('a', { href: `#${section}` }, title) : title),
        h('table', {}, h('tbody', {}, ...rows)),
        note === '' ? null : h('p', { class: 'note' }, note),
    );
}

const kinds: [name: string, title: string][] = [
    ['processes', 'Processes'],
    ['binary', 'Binaries'],
    ['ets', 'ETS tables'],
    ['code', 'Code'],
    ['atom', 'Atoms'],
];

function memory(series: Series[]): HTMLElement | null {
    const total = values(series, 'vm.memory.total').values.at(-1);
    if (!total) return null;
    const bars = kinds.flatMap(([name, label]): Bar[] => {
        const of = values(series, `vm.memory.${name}`);
        const now = of.values.at(-1);
        if (now === undefined) return [];
        return [{ label, value: format(now, 'B'), share: now / total, note: signed(change(of), 'B/s') }];
    });
    return card('Memory by kind', 'vm', bars);
}

/** Servers that are less busy do not matter. */
const leastBusy = 0.001;
/** From this share of a limit on, a node is near its end. */
const near = 0.85;

function limits(looks: Look[], series: Series[]): HTMLElement | null {
    const [first, last] = [looks[0], looks.at(-1)];
    if (!last) return null;
    const named: [key: string, label: string][] = [
        ['processes', 'Processes'],
        ['ports', 'Ports'],
        ['atoms', 'Atoms'],
        ['tables', 'ETS tables'],
    ];
    const seconds = ((last.time_ms ?? 0) - (first?.time_ms ?? 0)) / 1000;
    const bar = (label: string, used: unknown, limit: unknown, before: unknown): Bar[] => {
        const [u, l, b] = [num(used), num(limit), num(before)];
        if (u === null || l === null || l === 0) return [];
        const rate = b === null || seconds <= 0 ? null : (u - b) / seconds;
        const share = u / l;
        return [
            {
                label,
                value: `${format(share, 'ratio')}`,
                share,
                note: [`${format(u, 'count')} of ${format(l, 'count')}`, signed(rate, '1/s')].filter(Boolean).join(', '),
                bad: share > near,
            },
        ];
    };
    const pair = (look: Look | undefined, key: string): unknown[] => look?.counts?.[key] ?? [];
    const bars = [
        ...named.flatMap(([key, label]) => bar(label, pair(last, key)[0], pair(last, key)[1], pair(first, key)[0])),
        ...bar('File descriptors', last.machine_now?.fds, last.machine_now?.fds_limit, first?.machine_now?.fds),
    ];
    const free = values(series, 'os.memory.available').values.at(-1);
    bars.sort((a, b) => (b.share ?? 0) - (a.share ?? 0));
    return card('Limits', null, bars, free === undefined ? '' : `The machine has ${format(free, 'B')} of memory left.`);
}

/** Work a second of the processes with one first function. */
function busiest(run: Run, node: string | null, looks: Look[]): HTMLElement | null {
    const sums = new Map<string, { reductions: number; count: number }>();
    let ms = 0;
    for (const look of looks.filter((l) => l.interval_ms > 0)) {
        ms += look.interval_ms;
        for (const group of look.groups ?? []) {
            const before = sums.get(group.group)?.reductions ?? 0;
            sums.set(group.group, { reductions: before + (group.reductions ?? 0), count: group.count });
        }
    }
    const all = [...sums].filter(([, of]) => of.reductions > 0).sort((a, b) => b[1].reductions - a[1].reductions);
    const whole = all.reduce((sum, [, of]) => sum + of.reductions, 0);
    if (ms > 0 && all.length > 0)
        return card(
            'Busiest processes',
            'processes',
            all.map(([label, of]) => ({
                label,
                value: format(of.reductions / whole, 'ratio'),
                share: of.reductions / whole,
                note: `${of.count === 1 ? '' : `${format(of.count, 'count')} processes, `}${format((1000 * of.reductions) / ms, '1/s')}`,
            })),
            'By their first function; shares of the reductions of all.',
        );
    const rows = ranked(objects(tableOf(run, 'processes', node)), 'reductions');
    return card('Busiest processes', 'processes', sharesOf(rows, 'group', 'reductions', 'count'));
}

function ranked(rows: Row[], by: string): Row[] {
    return rows.filter((r) => (num(r[by]) ?? 0) > 0).sort((a, b) => num(b[by])! - num(a[by])!);
}

function sharesOf(rows: Row[], label: string, by: string, unit: string): Bar[] {
    const whole = rows.reduce((sum, r) => sum + num(r[by])!, 0);
    return rows.map((r) => ({
        label: String(r[label]),
        value: format(num(r[by]), unit),
        share: num(r[by])! / whole,
    }));
}

function servers(run: Run, node: string | null): HTMLElement | null {
    const rows = ranked(objects(tableOf(run, 'servers', node)), 'busy').filter((r) => num(r.busy)! >= leastBusy);
    return card(
        'Busiest servers',
        'other',
        rows.map((r) => {
            const rate = num(r.rate) ?? num(r.served);
            return {
                label: String(r.server),
                value: `${format(num(r.busy), 'ratio')}`,
                share: num(r.busy),
                note: [
                    num(r.rate) !== null && rate !== null && format(rate, '1/s'),
                    (num(r.queue_max) ?? 0) > 0 && `queue up to ${format(num(r.queue_max), 'count')}`,
                    num(r.p99) !== null && `p99 ${format(num(r.p99), 'ns')}`,
                ]
                    .filter(Boolean)
                    .join(', '),
                bad: num(r.busy)! > 0.95,
            };
        }),
        'The share of the time in a callback.',
    );
}

function functions(run: Run, node: string | null): HTMLElement | null {
    const rows = ranked(objects(tableOf(run, 'functions', node)), 'own_time');
    return card('Functions by own time', 'functions', sharesOf(rows, 'function', 'own_time', 'ns'));
}

/** For whom calls waited in the last look, and the longest queues. */
function waits(looks: Look[]): HTMLElement | null {
    const last = looks.at(-1);
    if (!last) return null;
    const counts = new Map<string, number>();
    for (const call of last.calls ?? []) counts.set(call.to_name, (counts.get(call.to_name) ?? 0) + 1);
    const calls = [...counts].sort((a, b) => b[1] - a[1]);
    const queues = ((last.suspects ?? []) as Look[])
        .filter((s) => num(s.queue) !== null && s.queue > 0)
        .sort((a, b) => b.queue - a.queue);
    const waiting = Math.max(1, ...calls.map(([, n]) => n));
    const longest = Math.max(1, ...queues.map((s) => s.queue));
    return card(
        'What waits',
        null,
        [
            ...calls.slice(0, 3).map(([name, n]) => ({
                label: name,
                value: format(n, 'count'),
                share: n / waiting,
                note: n === 1 ? 'a process waits for its answer' : 'processes wait for its answer',
            })),
            ...queues.slice(0, 3).map((s) => ({
                label: s.name,
                value: format(s.queue, 'count'),
                share: s.queue / longest,
                note: [
                    s.queue === 1 ? 'message waits' : 'messages wait',
                    s.stacks?.[0]?.stack?.[0] && `it is in ${s.stacks[0].stack[0]}`,
                ]
                    .filter(Boolean)
                    .join('; '),
                bad: s.queue > 1000,
            })),
        ],
        'At the last look.',
    );
}
